-- What every kind of work row takes part in: its states, who has work, whose lease is lost, the backlog.

-- The states of work rows change only as store/tables.py says: its triggers are made from TRANSITIONS there.
CREATE OR REPLACE FUNCTION memforest.refuse_transition()
RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'work in % that is % cannot become %', TG_TABLE_NAME, OLD.state, NEW.state
        USING ERRCODE = 'check_violation', CONSTRAINT = 'work_transition';
END $$;

-- The tenants that have rows of a kind of work at all, due or not, in order: from each to the next by one probe of a partial
-- index, so that tenants without work cost nothing, however many there are.
CREATE OR REPLACE FUNCTION memforest.busy(wanted text)
RETURNS TABLE (tenant_id text)
LANGUAGE plpgsql STABLE SET search_path = memforest, pg_temp AS $$
#variable_conflict use_column
DECLARE
    reached text := '';
BEGIN
    LOOP
        reached := CASE wanted
            WHEN 'extract' THEN
                (SELECT min(c.tenant_id) FROM cell c
                  WHERE c.state = 'ready' AND c.ordinal = c.window_ordinal AND c.tenant_id > reached)
            WHEN 'reduce' THEN
                (SELECT min(c.tenant_id) FROM cell c WHERE c.state = 'done' AND NOT c.placed AND c.tenant_id > reached)
            WHEN 'refresh' THEN
                (SELECT min(r.tenant_id) FROM tree r WHERE r.due_at IS NOT NULL AND r.tenant_id > reached)
            WHEN 'maintain' THEN
                least((SELECT min(i.tenant_id) FROM index_row i
                        WHERE i.indexed_version < i.version AND i.state = 'ready' AND i.tenant_id > reached),
                      (SELECT min(k.tenant_id) FROM maintenance k WHERE k.state = 'ready' AND k.tenant_id > reached),
                      (SELECT min(d.tenant_id) FROM webhook_delivery d
                        WHERE d.state IN ('held', 'ready') AND d.tenant_id > reached))
            WHEN 'redo' THEN
                (SELECT min(s.tenant_id) FROM node_summary s WHERE s.redo_at IS NOT NULL AND s.tenant_id > reached)
            WHEN 'held' THEN
                (SELECT min(c.tenant_id) FROM cell c WHERE c.state = 'held' AND c.tenant_id > reached)
            WHEN 'reopen' THEN
                (SELECT min(c.tenant_id) FROM cell c WHERE c.retry_at IS NOT NULL AND c.tenant_id > reached)
            WHEN 'past' THEN
                (SELECT min(d.tenant_id) FROM webhook_delivery d
                  WHERE d.state IN ('done', 'dead') AND d.tenant_id > reached)
        END;
        EXIT WHEN reached IS NULL;
        RETURN QUERY SELECT reached;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION memforest.busy(text) FROM PUBLIC;

-- Which tenants have work of a kind that can be claimed now: ids of tenants and lanes only. One index probe for each
-- tenant with such work and kind.
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
    SELECT t.tenant_id, w.lane FROM memforest.busy(wanted) t CROSS JOIN LATERAL (
        (SELECT c.lane FROM cell c
          WHERE wanted = 'extract' AND c.tenant_id = t.tenant_id AND c.state = 'ready'
            AND c.ordinal = c.window_ordinal AND c.available_at <= (SELECT clock_timestamp())
          ORDER BY c.lane LIMIT 1)
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
          WHERE wanted = 'maintain' AND i.tenant_id = t.tenant_id AND i.indexed_version < i.version
            AND i.state = 'ready' AND i.available_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT k.lane FROM maintenance k
          WHERE wanted = 'maintain' AND k.tenant_id = t.tenant_id AND k.state = 'ready'
            AND k.available_at <= clock_timestamp() AND memforest.waits_for(k.tenant_id, k.task_id) IS NULL
          LIMIT 1)
        UNION ALL
        (SELECT d.lane FROM webhook_delivery d
          WHERE wanted = 'maintain' AND d.tenant_id = t.tenant_id AND d.state IN ('held', 'ready')
            AND d.available_at <= clock_timestamp()
          LIMIT 1)
        UNION ALL
        (SELECT d.lane FROM webhook_delivery d
          WHERE wanted = 'past' AND d.tenant_id = t.tenant_id AND d.state IN ('done', 'dead')
            AND d.available_at <= clock_timestamp()
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
          WHERE wanted = 'reopen' AND c.tenant_id = t.tenant_id AND c.retry_at <= clock_timestamp()
          LIMIT 1)
    ) w
    GROUP BY t.tenant_id, w.lane
    ORDER BY w.lane, random()
--
    ) found WHERE (own IS NULL OR found.tenant_id = ANY(own)) AND NOT EXISTS (
        SELECT 1 FROM moved_tenant o WHERE o.tenant = found.tenant_id AND o.place IS NOT NULL);
    PERFORM set_config('memforest.across', '', true);
END $$;
REVOKE ALL ON FUNCTION memforest.waiting(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.waiting(text) TO memforest_service, memforest_limited;

-- At most so many of the tenants that memforest.waiting() names of 'extract' or 'refresh', by a few probes for each of them,
-- however many others have work: the live lane first, then any; in each those after a given tenant in the order of ids, then
-- from the first one on. Tenants whose rows are not due yet cost probes too.
-- Its owner is bound by row-level security too: the setting memforest.across lifts that for these queries.
CREATE OR REPLACE FUNCTION memforest.next_waiting(wanted text, after text, most integer)
RETURNS TABLE (tenant_id text, lane smallint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = memforest, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text[] := CASE WHEN pg_has_role(session_user, 'memforest_limited', 'MEMBER')
                        AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user)
                       THEN memforest.granted_tenants() END;
    named text[] := '{}';
    live_only boolean;
    wrapped boolean;
    reached text;
    due smallint;
BEGIN
    PERFORM set_config('memforest.across', 'on', true);
    FOREACH live_only IN ARRAY CASE wanted WHEN 'extract' THEN ARRAY[true, false] WHEN 'refresh' THEN ARRAY[false] END LOOP
        FOREACH wrapped IN ARRAY ARRAY[false, true] LOOP
            reached := CASE WHEN wrapped THEN '' ELSE after END;
            WHILE cardinality(named) < most LOOP
                reached := CASE
                    WHEN wanted = 'refresh' THEN
                        (SELECT min(r.tenant_id) FROM tree r WHERE r.due_at IS NOT NULL AND r.tenant_id > reached)
                    WHEN live_only THEN
                        (SELECT min(c.tenant_id) FROM cell c
                          WHERE c.state = 'ready' AND c.ordinal = c.window_ordinal AND c.lane = 0
                            AND c.tenant_id > reached)
                    ELSE
                        (SELECT min(c.tenant_id) FROM cell c
                          WHERE c.state = 'ready' AND c.ordinal = c.window_ordinal AND c.tenant_id > reached)
                END;
                EXIT WHEN reached IS NULL OR (wrapped AND reached > after);
                CONTINUE WHEN reached = ANY(named) OR NOT (own IS NULL OR reached = ANY(own))
                    OR EXISTS (SELECT 1 FROM moved_tenant o WHERE o.tenant = reached AND o.place IS NOT NULL);
                due := CASE
                    WHEN wanted = 'refresh' THEN
                        (SELECT 0::smallint FROM tree r
                          WHERE r.tenant_id = reached AND r.due_at <= clock_timestamp() LIMIT 1)
                    WHEN live_only THEN
                        (SELECT c.lane FROM cell c
                          WHERE c.tenant_id = reached AND c.state = 'ready' AND c.ordinal = c.window_ordinal
                            AND c.lane = 0 AND c.available_at <= (SELECT clock_timestamp()) LIMIT 1)
                    ELSE
                        (SELECT c.lane FROM cell c
                          WHERE c.tenant_id = reached AND c.state = 'ready' AND c.ordinal = c.window_ordinal
                            AND c.available_at <= (SELECT clock_timestamp()) ORDER BY c.lane LIMIT 1)
                END;
                CONTINUE WHEN due IS NULL;
                named := named || reached;
                RETURN QUERY SELECT reached, due;
            END LOOP;
        END LOOP;
    END LOOP;
    PERFORM set_config('memforest.across', '', true);
END $$;
REVOKE ALL ON FUNCTION memforest.next_waiting(text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.next_waiting(text, text, integer) TO memforest_service, memforest_limited;

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
    SELECT i.tenant_id FROM index_row i WHERE i.indexed_version < i.version AND i.state = 'running'
       AND (i.lease_until <= clock_timestamp() OR i.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT n.tenant_id FROM node n WHERE n.version > n.clean_version AND n.lease_token IS NOT NULL
       AND (n.lease_until <= clock_timestamp() OR n.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT k.tenant_id FROM maintenance k WHERE k.state = 'running'
       AND (k.lease_until <= clock_timestamp() OR k.worker_id NOT IN (SELECT worker_id FROM alive))
    UNION
    SELECT d.tenant_id FROM webhook_delivery d WHERE d.state = 'running'
       AND (d.lease_until <= clock_timestamp() OR d.worker_id NOT IN (SELECT worker_id FROM alive))
--
    ) found WHERE (own IS NULL OR found.tenant_id = ANY(own)) AND NOT EXISTS (
        SELECT 1 FROM moved_tenant o WHERE o.tenant = found.tenant_id AND o.place IS NOT NULL);
    PERFORM set_config('memforest.across', '', true);
END $$;
REVOKE ALL ON FUNCTION memforest.lost(interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.lost(interval) TO memforest_service, memforest_limited;

-- The backlog by tenant, kind and state; oldest_s is the age in seconds of the oldest of it. Only work
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
        UNION ALL SELECT c.tenant_id, 'reextract', 'held', c.extracted_at FROM cell c WHERE c.retry_at IS NOT NULL
        UNION ALL SELECT c.tenant_id, 'reduce', 'ready', c.extracted_at FROM cell c
                   WHERE c.state = 'done' AND NOT c.placed
        UNION ALL SELECT i.tenant_id, 'index_' || i.kind, i.state, i.available_at FROM index_row i
                   WHERE i.indexed_version < i.version AND i.state IN ('ready', 'running')
        UNION ALL SELECT n.tenant_id, 'refresh', n.state, coalesce(r.first_mark_at, n.available_at)
                    FROM node n JOIN tree r USING (tenant_id, tree_id)
                   WHERE n.version > n.clean_version AND NOT n.dead
        UNION ALL SELECT n.tenant_id, 'refresh', n.state, n.available_at FROM node n WHERE n.dead
        UNION ALL SELECT k.tenant_id, 'maintain', k.state, k.created_at FROM maintenance k WHERE k.state <> 'done'
        UNION ALL SELECT d.tenant_id, 'webhook', d.state, d.available_at FROM webhook_delivery d
                   WHERE d.state IN ('held', 'ready')
        UNION ALL SELECT d.tenant_id, 'webhook', d.state, d.available_at FROM webhook_delivery d
                   WHERE d.state = 'running'
    )
    SELECT r.tenant_id, r.kind, r.state, count(*),
           greatest(0, extract(epoch FROM clock_timestamp() - min(r.since)))::double precision
      FROM rows r GROUP BY r.tenant_id, r.kind, r.state
--
    ) found WHERE own IS NULL OR found.tenant_id = ANY(own);
    PERFORM set_config('memforest.across', '', true);
END $$;
REVOKE ALL ON FUNCTION memforest.backlog() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.backlog() TO memforest_service, memforest_limited;
