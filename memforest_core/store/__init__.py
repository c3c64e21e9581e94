"""The database: engine, tables, locks, trees, vectors, migrations."""
