"""The memory over HTTP, for programs that have a key and nothing else: no database, no broker, no models."""
