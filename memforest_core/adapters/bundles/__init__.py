"""Bundle files."""
