-- Of a packed turn: the place of its text (session, ordinal), and the compressed texts of its pack; else null. Small enough to
-- be made part of the statement that calls it.
CREATE OR REPLACE FUNCTION memforest.packed(tenant text, its_pack integer, session uuid, ordinal integer)
RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN its_pack IS NOT NULL THEN (
        SELECT uuid_send(session) || int4send(ordinal) || p.texts FROM memforest.turn_pack p
         WHERE p.tenant_id = tenant AND p.pack = its_pack) END
$$;

REVOKE ALL ON FUNCTION memforest.packed(text, integer, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.packed(text, integer, uuid, integer) TO memforest_service, memforest_limited;
