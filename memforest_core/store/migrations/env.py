"""How Alembic meets the database: always over the connection that ``schema.py`` opened and locked."""

from alembic import context

from memforest_core.store.tables import SCHEMA, Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table="schema_version",
    version_table_schema=SCHEMA,
    include_schemas=True,
    include_name=lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
