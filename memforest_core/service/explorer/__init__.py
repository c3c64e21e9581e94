"""The pages at ``/`` of the HTTP service: what a memory holds, how it came to that, and how the work stands."""
