"""Moving a tenant to another database while it is used."""
