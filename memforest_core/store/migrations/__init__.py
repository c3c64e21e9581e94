"""Alembic migrations; shipped in the package and run by ``memforest db upgrade``."""
