"""The audit as a chain: each row's place and hash. Rows that are there are chained in the order of their ids."""

from __future__ import annotations

from alembic import op

revision = "0160"
down_revision = "0150"

compatible = True
"""The version before adds rows without either; a trigger completes them."""

_CHAIN = """
DO $$
DECLARE r memforest.audit; last memforest.audit;
BEGIN
    FOR r IN SELECT * FROM memforest.audit ORDER BY tenant_id, audit_id LOOP
        IF last.tenant_id IS DISTINCT FROM r.tenant_id THEN last.place := 0; last.hash := ''; END IF;
        UPDATE memforest.audit SET place = last.place + 1, hash = sha256(last.hash || convert_to((
            SELECT string_agg(coalesce(octet_length(convert_to(f, 'UTF8')) || ':' || f, '-'), ',' ORDER BY n)
              FROM unnest(ARRAY[r.tenant_id, (last.place + 1)::text, r.audit_id::text,
                   (extract(epoch FROM r.at) * 1000000)::bigint::text, r.actor, r.action, r.outcome, r.forest_id::text,
                   encode(r.owner_hash, 'hex'), r.task_id::text, r.detail::text]) WITH ORDINALITY AS u(f, n)), 'UTF8'))
         WHERE tenant_id = r.tenant_id AND audit_id = r.audit_id RETURNING * INTO last;
    END LOOP;
END $$
"""
_GIVEN = "tenant_id, actor, action, outcome, forest_id, owner_hash, task_id, detail"


def upgrade() -> None:
    # What refuses changes comes back with the functions, at the end of the upgrade.
    op.execute("DROP TRIGGER IF EXISTS append_only ON memforest.audit")
    op.execute("ALTER TABLE memforest.audit ADD COLUMN place bigint, ADD COLUMN hash bytea")
    op.execute(_CHAIN)
    op.execute("CREATE UNIQUE INDEX ix_audit_place ON memforest.audit (tenant_id, place)")
    # The service can't choose the time, place or hash of a row.
    op.execute("REVOKE INSERT ON memforest.audit FROM memforest_service, memforest_limited")
    op.execute(f"GRANT INSERT ({_GIVEN}) ON memforest.audit TO memforest_service, memforest_limited")


def downgrade() -> None:
    op.execute("DROP TRIGGER IF EXISTS seal_audit ON memforest.audit")
    op.execute("DROP TRIGGER IF EXISTS sealed_once ON memforest.audit")
    op.execute("GRANT INSERT ON memforest.audit TO memforest_service, memforest_limited")
    op.execute("ALTER TABLE memforest.audit DROP COLUMN place, DROP COLUMN hash")
