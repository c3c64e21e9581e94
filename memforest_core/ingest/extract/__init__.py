"""From the turns of a window to dated, attributed candidates."""
