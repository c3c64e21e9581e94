-- The tenants with expired leases: past their deadline, or of a worker without a heartbeat.
-- Its owner is bound by row-level security too: the setting memforest.across lifts that for this one query.
CREATE OR REPLACE FUNCTION memforest.lost(dead_after interval)
RETURNS TABLE (tenant_id text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text[] := CASE WHEN pg_has_role(session_user, 'memforest_limited', 'MEMBER')
                        AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user)
                       THEN memforest.granted_tenants() END;
BEGIN
    PERFORM set_config('memforest.across', 'on', true);
    RETURN QUERY SELECT * FROM (
--
    WITH alive AS (
        SELECT worker_id FROM worker WHERE heartbeat_at > clock_timestamp() - dead_after
    )
    SELECT c.tenant_id FROM cell c WHERE c.state = 'running'
       AND (c.lease_until <= clock_timestamp() OR c.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT i.tenant_id FROM index_row i WHERE i.state = 'running'
       AND (i.lease_until <= clock_timestamp() OR i.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT n.tenant_id FROM node n WHERE n.lease_token IS NOT NULL
       AND (n.lease_until <= clock_timestamp() OR n.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT k.tenant_id FROM maintenance k WHERE k.state = 'running'
       AND (k.lease_until <= clock_timestamp() OR k.worker_id NOT IN (SELECT worker_id FROM alive))
--
    ) found WHERE own IS NULL OR found.tenant_id = ANY(own);
    PERFORM set_config('memforest.across', '', true);
END $$;
