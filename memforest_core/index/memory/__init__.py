"""In-memory index of each forest that is searched often."""
