"""Keys with which programs reach a tenant's memory over HTTP."""
