"""Tasks that take many steps, each of which survives a kill: asked for once, resumed where they stood."""
