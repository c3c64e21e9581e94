-- Chain a row of the audit to the one before it: its place in the order of commits, and the hash of that row's hash and all
-- columns, each with its length. Deferred to the end of the transaction: the lock is held while it commits, not while it works,
-- and a transaction that aborts never had a place. work/audit.py computes the same.
CREATE OR REPLACE FUNCTION memforest.seal_audit()
RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
DECLARE
    last record;
BEGIN
    PERFORM set_config('memforest.tenant', NEW.tenant_id, true);
    PERFORM pg_advisory_xact_lock(hashtextextended('memforest.audit ' || NEW.tenant_id, 0));
    SELECT place, hash INTO last FROM audit
     WHERE tenant_id = NEW.tenant_id AND place IS NOT NULL ORDER BY place DESC LIMIT 1;
    UPDATE audit SET place = coalesce(last.place, 0) + 1, hash = sha256(coalesce(last.hash, '') || convert_to((
        SELECT string_agg(coalesce(octet_length(convert_to(f, 'UTF8')) || ':' || f, '-'), ',' ORDER BY n)
          FROM unnest(ARRAY[NEW.tenant_id, (coalesce(last.place, 0) + 1)::text, NEW.audit_id::text,
               (extract(epoch FROM NEW.at) * 1000000)::bigint::text, NEW.actor, NEW.action, NEW.outcome,
               NEW.forest_id::text, encode(NEW.owner_hash, 'hex'), NEW.task_id::text, NEW.detail::text])
               WITH ORDINALITY AS u(f, n)), 'UTF8'))
     WHERE tenant_id = NEW.tenant_id AND audit_id = NEW.audit_id;
    RETURN NULL;
END $$;

REVOKE ALL ON FUNCTION memforest.seal_audit() FROM PUBLIC;

DROP TRIGGER IF EXISTS seal_audit ON memforest.audit;
-- Rows of a restored backup have their hashes.
CREATE CONSTRAINT TRIGGER seal_audit AFTER INSERT ON memforest.audit DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.hash IS NULL) EXECUTE FUNCTION memforest.seal_audit();
