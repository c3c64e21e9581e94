-- Which tenants have work of a kind that can be claimed now: ids of tenants and lanes only. One index probe for each
-- tenant and kind.
-- Its owner is bound by row-level security too: the setting memforest.across lifts that for this one query.
CREATE OR REPLACE FUNCTION memforest.waiting(wanted text)
RETURNS TABLE (tenant_id text, lane smallint)
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
    SELECT t.tenant_id, w.lane FROM tenant t CROSS JOIN LATERAL (
        (SELECT c.lane FROM cell c
          WHERE wanted = 'extract' AND c.tenant_id = t.tenant_id AND c.state = 'ready'
            AND c.ordinal = c.window_ordinal AND c.available_at <= clock_timestamp()
          ORDER BY c.lane, c.available_at LIMIT 1)
        UNION ALL
        (SELECT c.lane FROM cell c JOIN forest f USING (tenant_id, forest_id)
          WHERE wanted = 'reduce' AND c.tenant_id = t.tenant_id AND c.state = 'done' AND NOT c.placed
            AND f.reduce_available_at <= clock_timestamp()
          ORDER BY c.lane, c.extracted_at LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM tree r
          WHERE wanted = 'refresh' AND r.tenant_id = t.tenant_id AND r.due_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT i.lane FROM index_row i
          WHERE wanted = 'maintain' AND i.tenant_id = t.tenant_id AND i.state = 'ready'
            AND i.available_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT k.lane FROM maintenance k
          WHERE wanted = 'maintain' AND k.tenant_id = t.tenant_id AND k.state = 'ready'
            AND k.available_at <= clock_timestamp() AND memforest.waits_for(k.tenant_id, k.task_id) IS NULL
          LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM node_summary s
          WHERE wanted = 'redo' AND s.tenant_id = t.tenant_id AND s.redo_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM cell c
          WHERE wanted = 'held' AND c.tenant_id = t.tenant_id AND c.state = 'held'
            AND c.available_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT 0::smallint FROM cell c
          WHERE wanted = 'again' AND c.tenant_id = t.tenant_id AND c.again_at <= clock_timestamp()
          LIMIT 1)
    ) w
    GROUP BY t.tenant_id, w.lane
    ORDER BY w.lane, random()
--
    ) found WHERE own IS NULL OR found.tenant_id = ANY(own);
    PERFORM set_config('memforest.across', '', true);
END $$;
