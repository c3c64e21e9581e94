"""The one place where adapters meet services: light for producers, whole for workers and readers."""
