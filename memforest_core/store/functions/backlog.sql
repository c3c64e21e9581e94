-- How much work stands where, by tenant, kind and state; oldest_s is the age in seconds of the oldest of it. Only work
-- that is under way or stuck is counted, from partial indexes: what is done is not a backlog.
-- Its owner is bound by row-level security too: the setting memforest.across lifts that for this one query.
CREATE OR REPLACE FUNCTION memforest.backlog()
RETURNS TABLE (tenant_id text, kind text, state text, items bigint, oldest_s double precision)
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
    WITH rows (tenant_id, kind, state, since) AS (
        SELECT c.tenant_id, 'extract', c.state, CASE WHEN c.agains > 0 THEN c.available_at ELSE c.created_at END
          FROM cell c
         WHERE c.state = 'ready' AND c.ordinal = c.window_ordinal
        UNION ALL SELECT c.tenant_id, 'extract', c.state, c.created_at FROM cell c WHERE c.state = 'running'
        UNION ALL SELECT c.tenant_id, 'extract', c.state, c.created_at FROM cell c WHERE c.state = 'held'
        UNION ALL SELECT c.tenant_id, 'extract', c.state, c.created_at FROM cell c WHERE c.state = 'dead'
        UNION ALL SELECT c.tenant_id, 'reextract', 'held', c.extracted_at FROM cell c WHERE c.again_at IS NOT NULL
        UNION ALL SELECT c.tenant_id, 'reduce', 'ready', c.extracted_at FROM cell c
                   WHERE c.state = 'done' AND NOT c.placed
        UNION ALL SELECT i.tenant_id, 'index_' || i.kind, i.state, i.available_at FROM index_row i
                   WHERE i.state = 'ready'
        UNION ALL SELECT i.tenant_id, 'index_' || i.kind, i.state, i.available_at FROM index_row i
                   WHERE i.state = 'running'
        UNION ALL SELECT n.tenant_id, 'refresh', n.state, coalesce(r.first_mark_at, n.available_at)
                    FROM node n JOIN tree r USING (tenant_id, tree_id)
                   WHERE n.version > n.clean_version AND NOT n.dead
        UNION ALL SELECT n.tenant_id, 'refresh', n.state, n.available_at FROM node n WHERE n.dead
        UNION ALL SELECT k.tenant_id, 'maintain', k.state, k.created_at FROM maintenance k WHERE k.state <> 'done'
    )
    SELECT r.tenant_id, r.kind, r.state, count(*),
           greatest(0, extract(epoch FROM clock_timestamp() - min(r.since)))::double precision
      FROM rows r GROUP BY r.tenant_id, r.kind, r.state
--
    ) found WHERE own IS NULL OR found.tenant_id = ANY(own);
    PERFORM set_config('memforest.across', '', true);
END $$;
