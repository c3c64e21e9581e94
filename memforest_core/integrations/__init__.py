"""The memory behind the interfaces of agent frameworks. Each module needs its framework, and is imported by who uses it."""
