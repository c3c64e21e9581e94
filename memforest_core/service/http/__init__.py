"""The service over HTTP: every public operation under ``/v1``, thin over the library."""
