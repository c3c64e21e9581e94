-- The audit is append-only for every role, the owner of the tables included; seal_audit() alone completes a row, once.
CREATE OR REPLACE FUNCTION memforest.refuse_change()
RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % can only be added', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON memforest.audit
FOR EACH STATEMENT EXECUTE FUNCTION memforest.refuse_change();

CREATE OR REPLACE TRIGGER sealed_once BEFORE UPDATE ON memforest.audit
FOR EACH ROW WHEN (OLD.hash IS NOT NULL OR NEW.hash IS NULL
    OR to_jsonb(OLD) - '{place,hash}'::text[] <> to_jsonb(NEW) - '{place,hash}'::text[])
EXECUTE FUNCTION memforest.refuse_change();
