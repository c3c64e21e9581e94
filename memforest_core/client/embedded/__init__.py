"""A whole node on one machine without containers: servers from wheels, owned by one process."""
