-- Ends a transaction that was bound to a tenant whose rows another database has, or gets by a move that has not ended.
CREATE OR REPLACE FUNCTION memforest.refuse_moved(place text, move uuid)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'MF001', MESSAGE = 'The tenant ' || CASE WHEN move IS NULL
        THEN format('was moved to %s: use it there.', place)
        ELSE format('is being moved to %s: try again in some seconds.', place) END;
END $$;

REVOKE ALL ON FUNCTION memforest.refuse_moved(text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.refuse_moved(text, uuid) TO memforest_service, memforest_limited;
