"""Celery workers: thin tasks that claim rows and call one core function."""
