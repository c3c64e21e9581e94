-- A task that is done touches no forest any more, so that no other task waits for it.
CREATE OR REPLACE FUNCTION memforest.leave_forests()
RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memforest.maintenance_forest WHERE tenant_id = NEW.tenant_id AND task_id = NEW.task_id;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER leave_forests AFTER UPDATE OF state ON memforest.maintenance
FOR EACH ROW WHEN (NEW.state = 'done') EXECUTE FUNCTION memforest.leave_forests();
