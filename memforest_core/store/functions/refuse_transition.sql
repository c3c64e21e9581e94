-- The states of work rows change only as work/states.py says.
CREATE OR REPLACE FUNCTION memforest.refuse_transition()
RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'work in % that is % cannot become %', TG_TABLE_NAME, OLD.state, NEW.state
        USING ERRCODE = 'check_violation', CONSTRAINT = 'work_transition';
END $$;

CREATE OR REPLACE TRIGGER work_transition BEFORE UPDATE OF state ON memforest.cell
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state, NEW.state) NOT IN (
    ('held', 'ready'), ('ready', 'running'), ('running', 'ready'), ('running', 'done'), ('running', 'dead'),
    ('done', 'ready'), ('done', 'dead'), ('dead', 'ready'), ('dead', 'done')
)) EXECUTE FUNCTION memforest.refuse_transition();

CREATE OR REPLACE TRIGGER work_transition BEFORE UPDATE OF state ON memforest.index_row
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state, NEW.state) NOT IN (
    ('held', 'ready'), ('ready', 'running'), ('running', 'ready'), ('running', 'done'), ('running', 'dead'),
    ('done', 'ready'), ('done', 'dead'), ('dead', 'ready'), ('dead', 'done')
)) EXECUTE FUNCTION memforest.refuse_transition();

CREATE OR REPLACE TRIGGER work_transition BEFORE UPDATE OF state ON memforest.maintenance
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state, NEW.state) NOT IN (
    ('held', 'ready'), ('ready', 'running'), ('running', 'ready'), ('running', 'done'), ('running', 'dead'),
    ('done', 'ready'), ('done', 'dead'), ('dead', 'ready'), ('dead', 'done')
)) EXECUTE FUNCTION memforest.refuse_transition();

-- A node's state is computed from its other columns: it is known only after the row was written.
CREATE OR REPLACE TRIGGER work_transition AFTER UPDATE ON memforest.node
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state AND (OLD.state, NEW.state) NOT IN (
    ('held', 'ready'), ('ready', 'running'), ('running', 'ready'), ('running', 'done'), ('running', 'dead'),
    ('done', 'ready'), ('done', 'dead'), ('dead', 'ready'), ('dead', 'done')
)) EXECUTE FUNCTION memforest.refuse_transition();
