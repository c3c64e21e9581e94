"""Deleting what was said, what was made of it and what was derived from that, with a receipt."""
