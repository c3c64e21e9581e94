-- The first task that a task waits for, or null. A running task is waited for whenever it was requested: a dead task
-- may be revived among tasks that were requested later.
CREATE OR REPLACE FUNCTION memforest.waits_for(tenant text, task uuid)
RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT o.task_id
      FROM memforest.maintenance k
      JOIN memforest.maintenance_forest mine ON mine.tenant_id = tenant AND mine.task_id = k.task_id
      JOIN memforest.maintenance_forest theirs
        ON theirs.tenant_id = tenant AND theirs.forest_id = mine.forest_id AND theirs.task_id <> k.task_id
      JOIN memforest.maintenance o ON o.tenant_id = tenant AND o.task_id = theirs.task_id
     WHERE k.tenant_id = tenant AND k.task_id = task AND k.cancelled_by IS NULL AND o.state <> 'done'
       AND CASE WHEN o.sequence < k.sequence
                THEN memforest.operation_rule(theirs.role, mine.role) = 'outwaits'
                     OR (o.state <> 'dead' AND memforest.operation_rule(theirs.role, mine.role) = 'waits')
                ELSE memforest.operation_rule(mine.role, theirs.role) = 'overtakes'
                     OR (o.state = 'running' AND memforest.operation_rule(mine.role, theirs.role) IN ('waits', 'outwaits')) END
     ORDER BY o.sequence LIMIT 1
$$;

REVOKE ALL ON FUNCTION memforest.waits_for(text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memforest.waits_for(text, uuid) TO memforest_service, memforest_limited;
