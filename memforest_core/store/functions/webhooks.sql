-- Events of webhooks: a change of a work row becomes deliveries in the same transaction. A tenant without an endpoint
-- costs one probe of an index, and a change that no event is about costs a comparison.

-- Store an event for each enabled endpoint of the tenant that wants it. While a delivery is held its id is made of what it is
-- about, so that there is one.
CREATE OR REPLACE FUNCTION memforest.tell_webhooks(tenant text, event_type text, forest uuid, about jsonb, held boolean)
RETURNS void
LANGUAGE sql AS $$
    INSERT INTO memforest.webhook_delivery (tenant_id, delivery_id, endpoint_id, event, data, forest_id, state)
    SELECT e.tenant_id,
           md5(concat_ws(' ', e.endpoint_id, event_type, about, CASE WHEN NOT held THEN pg_current_xact_id() END))::uuid,
           e.endpoint_id, event_type, about, forest, CASE WHEN held THEN 'held' ELSE 'ready' END
      FROM memforest.webhook_endpoint e
     WHERE e.tenant_id = tenant AND e.enabled AND event_type = ANY(e.events)
     ORDER BY e.endpoint_id
    ON CONFLICT (tenant_id, delivery_id) DO NOTHING
$$;

-- A cell was given up, or it was placed or given up as the last one of its session. Copies that operations build send no event.
-- The cells are read from the end, where those that wait are.
CREATE OR REPLACE FUNCTION memforest.tell_of_cell()
RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    about jsonb;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM memforest.webhook_endpoint WHERE tenant_id = NEW.tenant_id AND enabled) THEN
        RETURN NULL;
    END IF;
    SELECT jsonb_build_object('owner', f.owner, 'session_id', s.external_id) INTO about
      FROM memforest.session s
      JOIN memforest.forest f ON f.tenant_id = s.tenant_id AND f.forest_id = s.forest_id AND f.state IN ('live', 'frozen')
     WHERE s.tenant_id = NEW.tenant_id AND s.session_id = NEW.session_id;
    IF about IS NULL THEN
        RETURN NULL;
    END IF;
    IF NEW.state = 'dead' AND OLD.state <> 'dead' THEN
        PERFORM memforest.tell_webhooks(NEW.tenant_id, 'work.dead', NEW.forest_id, about || jsonb_build_object(
            'kind', 'cell', 'id', NEW.cell_id, 'code', NEW.error_code,
            'step', CASE WHEN NEW.extracted_at IS NOT NULL AND NOT NEW.placed THEN 'reduce' ELSE 'extract' END), false);
    END IF;
    IF OLD.placed OR OLD.state = 'dead' THEN
        RETURN NULL;
    END IF;
    -- Two transactions that each settle a last cell would each miss the other's: the second waits here, and counts afterwards.
    PERFORM pg_advisory_xact_lock(hashtextextended('memforest.telling ' || NEW.forest_id, 0));
    IF (SELECT c.cell_id FROM memforest.cell c
         WHERE c.tenant_id = NEW.tenant_id AND c.session_id = NEW.session_id AND NOT (c.placed OR c.state = 'dead')
         ORDER BY c.ordinal DESC LIMIT 1) IS NULL THEN
        PERFORM memforest.tell_webhooks(NEW.tenant_id, 'session.facts_ready', NEW.forest_id, about, false);
        PERFORM memforest.tell_webhooks(NEW.tenant_id, 'session.ready', NEW.forest_id, about, true);
    END IF;
    RETURN NULL;
END $$;

-- A node of a tree was given up.
CREATE OR REPLACE FUNCTION memforest.tell_of_node()
RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM memforest.webhook_endpoint WHERE tenant_id = NEW.tenant_id AND enabled) THEN
        PERFORM memforest.tell_webhooks(NEW.tenant_id, 'work.dead', f.forest_id, jsonb_strip_nulls(jsonb_build_object(
                    'kind', 'node', 'id', NEW.node_id, 'code', NEW.error_code, 'step', 'refresh',
                    'owner', f.owner, 'session_id', s.external_id)), false)
           FROM memforest.tree r
           JOIN memforest.forest f
             ON f.tenant_id = r.tenant_id AND f.forest_id = r.forest_id AND f.state IN ('live', 'frozen')
           LEFT JOIN memforest.session s ON s.tenant_id = r.tenant_id AND s.session_id = r.session_id
          WHERE r.tenant_id = NEW.tenant_id AND r.tree_id = NEW.tree_id;
    END IF;
    RETURN NULL;
END $$;

-- An operation is over, or was given up. What the service does by itself has no actor, and sends an event only when it is given up.
CREATE OR REPLACE FUNCTION memforest.tell_of_operation()
RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    owned memforest.forest%ROWTYPE;
    whose jsonb;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM memforest.webhook_endpoint WHERE tenant_id = NEW.tenant_id AND enabled) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO owned FROM memforest.forest f
     WHERE f.tenant_id = NEW.tenant_id AND f.forest_id = NEW.forest_id AND f.state IN ('live', 'frozen');
    whose := jsonb_strip_nulls(jsonb_build_object('owner', owned.owner));
    IF NEW.actor <> '' AND OLD.state NOT IN ('done', 'dead') THEN
        PERFORM memforest.tell_webhooks(NEW.tenant_id, 'operation.finished', owned.forest_id, whose || jsonb_build_object(
            'operation', NEW.task_id, 'kind', NEW.kind,
            'outcome', CASE WHEN NEW.state = 'done' AND NEW.error_code = 'cancelled' THEN 'cancelled' ELSE NEW.state END),
            false);
    END IF;
    IF NEW.state = 'dead' THEN
        PERFORM memforest.tell_webhooks(NEW.tenant_id, 'work.dead', owned.forest_id, whose || jsonb_build_object(
            'kind', 'task', 'id', NEW.task_id, 'code', NEW.error_code, 'step', NEW.kind), false);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tell_webhooks AFTER UPDATE OF state, placed ON memforest.cell
FOR EACH ROW WHEN ((NEW.state = 'dead' AND OLD.state <> 'dead') OR (NEW.placed AND NOT OLD.placed))
EXECUTE FUNCTION memforest.tell_of_cell();

CREATE OR REPLACE TRIGGER tell_webhooks AFTER UPDATE OF dead ON memforest.node
FOR EACH ROW WHEN (NEW.dead AND NOT OLD.dead) EXECUTE FUNCTION memforest.tell_of_node();

CREATE OR REPLACE TRIGGER tell_webhooks AFTER UPDATE OF state ON memforest.maintenance
FOR EACH ROW WHEN (NEW.state IN ('done', 'dead') AND NEW.state <> OLD.state)
EXECUTE FUNCTION memforest.tell_of_operation();
