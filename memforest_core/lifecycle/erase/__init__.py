"""Deletion of turns, of the facts made of them and of what was derived from those, with a receipt."""
