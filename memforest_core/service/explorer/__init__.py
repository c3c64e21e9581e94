"""The pages at ``/`` of the HTTP service: what a memory has, how it came to that, and the state of the work."""
