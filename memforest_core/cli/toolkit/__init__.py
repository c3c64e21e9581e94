"""Tools that all commands share: options, output, opening a memory, following an operation, logs."""
