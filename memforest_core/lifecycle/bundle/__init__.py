"""Taking a whole forest out to a file, and bringing one in."""
