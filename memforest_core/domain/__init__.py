"""The pure heart: what a turn, a cell, a fact and a scope are, without I/O or clocks."""
