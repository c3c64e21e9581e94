-- How two tasks stand to each other, by the roles of the earlier and the later one (domain/beside.py); pairs that are
-- not named run at the same time.
CREATE OR REPLACE FUNCTION memforest.beside(earlier text, later text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE earlier || ' ' || later
           WHEN 'erase erase' THEN 'waits'
           WHEN 'erase merge_from' THEN 'holds'
           WHEN 'erase merge_into' THEN 'waits'
           WHEN 'erase export' THEN 'refused'
           WHEN 'erase rematerialize' THEN 'holds'
           WHEN 'erase retain' THEN 'waits'
           WHEN 'correct merge_from' THEN 'holds'
           WHEN 'correct merge_into' THEN 'waits'
           WHEN 'merge_from erase' THEN 'refused'
           WHEN 'merge_from correct' THEN 'refused'
           WHEN 'merge_from merge_from' THEN 'refused'
           WHEN 'merge_from merge_into' THEN 'refused'
           WHEN 'merge_from rematerialize' THEN 'refused'
           WHEN 'merge_from retain' THEN 'waits'
           WHEN 'merge_into erase' THEN 'waits'
           WHEN 'merge_into merge_from' THEN 'holds'
           WHEN 'merge_into merge_into' THEN 'waits'
           WHEN 'merge_into rematerialize' THEN 'holds'
           WHEN 'merge_into retain' THEN 'waits'
           WHEN 'import erase' THEN 'waits'
           WHEN 'rematerialize erase' THEN 'overtakes'
           WHEN 'rematerialize merge_from' THEN 'refused'
           WHEN 'rematerialize merge_into' THEN 'refused'
           WHEN 'rematerialize rematerialize' THEN 'refused'
           WHEN 'rematerialize retain' THEN 'waits'
           WHEN 'retain merge_from' THEN 'waits'
           WHEN 'retain merge_into' THEN 'waits'
           WHEN 'retain rematerialize' THEN 'waits'
           WHEN 'retain retain' THEN 'waits'
           ELSE 'beside' END
$$;
