-- The audit is append-only for every role, the owner of the tables included.
CREATE OR REPLACE FUNCTION memforest.refuse_change()
RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % can only be added', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON memforest.audit
FOR EACH STATEMENT EXECUTE FUNCTION memforest.refuse_change();
