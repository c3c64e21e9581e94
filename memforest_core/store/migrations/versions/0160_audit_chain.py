"""The audit as a chain: each row's place and hash. Rows that are there are chained in the order of their ids."""

from __future__ import annotations

from alembic import op

revision = "0160"
down_revision = "0150"
branch_labels = None
depends_on = None

compatible = True
"""The version before adds rows without either; a trigger completes them."""

_CHAIN = """
DO $$
DECLARE
    r memforest.audit;
    tenant text;
    n bigint;
    previous bytea;
BEGIN
    FOR r IN SELECT * FROM memforest.audit ORDER BY tenant_id, audit_id LOOP
        IF r.tenant_id IS DISTINCT FROM tenant THEN
            tenant := r.tenant_id;
            n := 0;
            previous := '';
        END IF;
        n := n + 1;
        previous := sha256(previous || convert_to((
            SELECT string_agg(coalesce(octet_length(convert_to(f, 'UTF8')) || ':' || f, '-'), ',' ORDER BY i)
              FROM unnest(ARRAY[r.tenant_id, n::text, r.audit_id::text,
                   (extract(epoch FROM r.at) * 1000000)::bigint::text, r.actor, r.action, r.outcome,
                   r.forest_id::text, encode(r.owner_hash, 'hex'), r.task_id::text, r.detail::text])
                   WITH ORDINALITY AS u(f, i)), 'UTF8'));
        UPDATE memforest.audit SET place = n, hash = previous WHERE tenant_id = tenant AND audit_id = r.audit_id;
    END LOOP;
END $$
"""


def upgrade() -> None:
    # What refuses changes comes back with the functions, at the end of the upgrade.
    op.execute("DROP TRIGGER IF EXISTS append_only ON memforest.audit")
    op.execute("ALTER TABLE memforest.audit ADD COLUMN place bigint, ADD COLUMN hash bytea")
    op.execute(_CHAIN)
    op.execute("CREATE UNIQUE INDEX ix_audit_place ON memforest.audit (tenant_id, place)")


def downgrade() -> None:
    op.execute("DROP TRIGGER IF EXISTS seal_audit ON memforest.audit")
    op.execute("DROP TRIGGER IF EXISTS sealed_once ON memforest.audit")
    op.execute("ALTER TABLE memforest.audit DROP COLUMN place, DROP COLUMN hash")
