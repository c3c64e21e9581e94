"""Which trees a fact belongs to: entities by name, scenes by online clustering; no model call."""
