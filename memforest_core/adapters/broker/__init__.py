"""The Redis-protocol broker, through Celery's producer."""
