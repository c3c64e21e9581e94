"""A whole forest at once: merge, export, import and rebuild."""
