"""The statements behind dead work: what is given up, and what becomes of it."""

from __future__ import annotations

import sqlalchemy as sa

# What the reducer gave up was extracted and is not in the trees.
_REDUCED = "(c.extracted_at IS NOT NULL AND NOT c.placed)"

_DEAD = f"""
    SELECT 'cell' AS kind, c.cell_id AS id, CASE WHEN {_REDUCED} THEN 'reduce' ELSE 'extract' END AS step,
           f.owner, s.external_id AS session, c.error_code AS code, c.error_text AS text, c.attempts, c.lost_leases,
           least(clock_timestamp(), greatest(c.available_at, c.extracted_at)) AS since
      FROM memforest.cell c
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = c.forest_id
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
     WHERE c.tenant_id = :t AND c.state = 'dead'
    UNION ALL
    SELECT 'node', n.node_id, 'refresh', f.owner, s.external_id, n.error_code, n.error_text, n.attempts, n.lost_leases,
           least(clock_timestamp(), n.available_at)
      FROM memforest.node n
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = r.forest_id
      LEFT JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = r.session_id
     WHERE n.tenant_id = :t AND n.dead
    UNION ALL
    SELECT 'task', k.task_id, k.kind, f.owner, NULL, k.error_code, k.error_text, k.attempts, k.lost_leases,
           k.finished_at
      FROM memforest.maintenance k
      LEFT JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = k.forest_id
     WHERE k.tenant_id = :t AND k.state = 'dead'"""  # noqa: S608 - a constant of this module

_MEANT = """kind = ANY(CAST(:kinds AS text[])) AND (CAST(:owner AS text) IS NULL OR owner = :owner)
       AND (CAST(:code AS text) IS NULL OR code = :code)"""

LIST = sa.text(
    f"SELECT * FROM ({_DEAD}) d WHERE {_MEANT}"  # noqa: S608 - constants of this module
    " ORDER BY kind, owner NULLS LAST, session NULLS LAST, since, id LIMIT :n"
)

FIND = sa.text(f"SELECT kind, id FROM ({_DEAD}) d WHERE {_MEANT} ORDER BY id")  # noqa: S608 - the same

ONE = sa.text(f"SELECT * FROM ({_DEAD}) d WHERE kind = :kind AND id = :id")  # noqa: S608 - the same

STARTING = sa.text(
    """
    SELECT kind, id FROM (
        SELECT 'cell' AS kind, cell_id AS id FROM memforest.cell WHERE tenant_id = :t AND state = 'dead'
        UNION ALL SELECT 'node', node_id FROM memforest.node WHERE tenant_id = :t AND dead
        UNION ALL SELECT 'task', task_id FROM memforest.maintenance WHERE tenant_id = :t AND state = 'dead') d
     WHERE replace(id::text, '-', '') LIKE ANY (CAST(:patterns AS text[])) ORDER BY id
    """
)

CELL = sa.text(
    """
    SELECT c.session_id, c.ordinal AS cell, c.first_turn, c.last_turn, c.window_ordinal AS window, c.lane,
           length(c.text) AS characters, c.agains,
           (SELECT count(*) FROM memforest.candidate k WHERE k.tenant_id = :t AND k.cell_id = c.cell_id) AS candidates
      FROM memforest.cell c WHERE c.tenant_id = :t AND c.cell_id = :id
    """
)

CELL_TEXTS = sa.text("SELECT text FROM memforest.cell WHERE tenant_id = :t AND cell_id = :id")

NODE = sa.text(
    """
    SELECT n.tree_id, r.kind AS tree_kind, n.level, n.leaf_count AS leaves, n.version, n.clean_version,
           coalesce(s.source, 'none') AS summary,
           (SELECT count(*) FROM memforest.node x WHERE x.tenant_id = :t AND x.parent_id = n.node_id) AS children
      FROM memforest.node n JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
      LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
     WHERE n.tenant_id = :t AND n.node_id = :id
    """
)

NODE_TEXTS = sa.text(
    """
    SELECT coalesce(s.text, f.text, nullif(c.summary, ''), c.text, '') AS text
      FROM memforest.node n
      LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = n.node_id
      LEFT JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = n.payload_id
      LEFT JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = n.payload_id
     WHERE n.tenant_id = :t AND n.parent_id = :id
     ORDER BY n.key_time, n.key_ordinal, n.key_item, n.key_id
    """
)

TASK = sa.text(
    "SELECT kind, subject, created_at, progress FROM memforest.maintenance WHERE tenant_id = :t AND task_id = :id"
)

# The reducer and refresh hold the forest or wait for it: what changes for them changes under the same lock.
LOCK_FORESTS = sa.text(
    """
    SELECT forest_id FROM memforest.forest WHERE tenant_id = :t AND forest_id IN (
        SELECT c.forest_id FROM memforest.cell c WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:cells AS uuid[]))
        UNION
        SELECT r.forest_id FROM memforest.node n JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = n.tree_id
         WHERE n.tenant_id = :t AND n.node_id = ANY(CAST(:nodes AS uuid[])))
     ORDER BY forest_id FOR NO KEY UPDATE
    """
)

_CHOSEN = f"""
    WITH chosen AS MATERIALIZED (
        SELECT c.cell_id, c.session_id, c.ordinal, c.window_ordinal, {_REDUCED} AS reduced FROM memforest.cell c
         WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:ids AS uuid[])) AND c.state = 'dead'
         ORDER BY c.cell_id FOR NO KEY UPDATE)"""  # noqa: S608 - a constant of this module

# A window is claimed by its first cell: without it, a cell goes alone. What the outcome was before is what its
# candidates tell.
RETRY_CELLS = sa.text(
    f"""{_CHOSEN}
    UPDATE memforest.cell c
       SET state = CASE WHEN d.reduced THEN 'done' ELSE 'ready' END, attempts = 0, lost_leases = 0,
           available_at = clock_timestamp(),
           window_ordinal = CASE WHEN d.reduced OR h.cell_id IS NOT NULL THEN c.window_ordinal ELSE c.ordinal END,
           error_code = CASE WHEN d.reduced THEN NULL ELSE c.error_code END,
           error_text = CASE WHEN d.reduced THEN NULL ELSE c.error_text END,
           outcome = CASE WHEN c.extracted_at IS NULL THEN NULL
                          WHEN k.verbatim THEN 'verbatim' WHEN k.verbatim IS NULL THEN 'empty' ELSE 'ok' END
      FROM chosen d
      LEFT JOIN chosen h ON h.session_id = d.session_id AND h.ordinal = d.window_ordinal AND NOT h.reduced
     CROSS JOIN LATERAL (
           SELECT bool_or((x.statement->>'verbatim')::boolean) AS verbatim FROM memforest.candidate x
            WHERE x.tenant_id = :t AND x.cell_id = d.cell_id AND x.item >= 0) k
     WHERE c.tenant_id = :t AND c.cell_id = d.cell_id
    RETURNING c.cell_id, c.forest_id, c.state, c.ordinal = c.window_ordinal AS head
    """  # noqa: S608 - constants of this module
)

# Facts that are in the trees stay: those word by word come back that a later extraction had moved aside. A correction
# that was not placed goes, so what it was to take the place of holds again.
DISCARD_CELLS = (
    sa.text(
        """
        UPDATE memforest.fact f SET superseded_by = NULL, superseded_at = NULL
         WHERE f.tenant_id = :t AND f.superseded_by IS NOT NULL
           AND f.fact_id IN (SELECT o.fact_id FROM memforest.occurrence o
                              WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:ids AS uuid[])))
           AND NOT EXISTS (SELECT 1 FROM memforest.fact n WHERE n.tenant_id = :t AND n.fact_id = f.superseded_by)
        """
    ),
    sa.text(
        """
        DELETE FROM memforest.candidate k
         WHERE k.tenant_id = :t AND k.cell_id = ANY(CAST(:ids AS uuid[])) AND k.item >= 0
           AND NOT EXISTS (SELECT 1 FROM memforest.occurrence o
                            WHERE o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item)
        RETURNING k.cell_id, k.text_hash, k.routing_hash
        """
    ),
    sa.text(
        """
        UPDATE memforest.candidate SET item = -1 - item
         WHERE tenant_id = :t AND cell_id = ANY(CAST(:ids AS uuid[])) AND item < 0
        """
    ),
)

STILL_DEAD = sa.text(f"{_CHOSEN} SELECT cell_id FROM chosen")  # noqa: S608 - a constant of this module

END_CELLS = sa.text(
    """
    UPDATE memforest.cell c
       SET state = 'done', placed = k.kept, outcome = CASE WHEN k.kept THEN 'verbatim' ELSE 'dead' END,
           extracted_at = coalesce(c.extracted_at, clock_timestamp()), again_at = NULL
      FROM unnest(CAST(:ids AS uuid[])) AS d(cell_id)
     CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM memforest.occurrence o
                                         WHERE o.tenant_id = :t AND o.cell_id = d.cell_id) AS kept) k
     WHERE c.tenant_id = :t AND c.cell_id = d.cell_id
    RETURNING c.cell_id, c.forest_id, c.placed
    """
)

REDUCE_NOW = sa.text(
    """
    UPDATE memforest.forest SET reduce_available_at = clock_timestamp()
     WHERE tenant_id = :t AND forest_id = ANY(CAST(:ids AS uuid[])) AND reduce_available_at > clock_timestamp()
    """
)

# Ancestors were summarized without it, or will be: they are due again with it.
PATHS = sa.text(
    """
    WITH RECURSIVE path AS (
        SELECT node_id, parent_id, tree_id FROM memforest.node
         WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[])) AND dead
        UNION
        SELECT n.node_id, n.parent_id, n.tree_id FROM path CROSS JOIN LATERAL (
               SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = path.parent_id LIMIT 1) n)
    SELECT node_id, tree_id FROM path
    """
)

MARK_PATHS = sa.text(
    "UPDATE memforest.node SET version = version + 1 WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[]))"
)

RETRY_NODES = sa.text(
    """
    UPDATE memforest.node SET dead = false, attempts = 0, lost_leases = 0, available_at = clock_timestamp()
     WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[])) AND dead RETURNING node_id, tree_id
    """
)

MARK_TREES = sa.text(
    """
    UPDATE memforest.tree SET marks = marks + 1, last_mark_at = now(),
           first_mark_at = coalesce(first_mark_at, now()), due_at = now()
     WHERE tenant_id = :t AND tree_id = ANY(CAST(:ids AS uuid[]))
    """
)

DISCARD_NODES = sa.text(
    """
    UPDATE memforest.node SET dead = false, clean_version = version, attempts = 0, lost_leases = 0,
           error_code = NULL, error_text = NULL
     WHERE tenant_id = :t AND node_id = ANY(CAST(:ids AS uuid[])) AND dead RETURNING node_id
    """
)

# Of several of one kind and subject only the newest is ready again; while one is under way, none, nor while another
# task is that would have refused it. What holds others back keeps its place before them; the rest is asked for now.
RETRY_TASKS = sa.text(
    """
    UPDATE memforest.maintenance SET state = 'ready', attempts = 0, lost_leases = 0, finished_at = NULL,
           available_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'dead' AND task_id IN (
        SELECT DISTINCT ON (kind, subject) task_id FROM memforest.maintenance k
         WHERE tenant_id = :t AND state = 'dead' AND task_id = ANY(CAST(:ids AS uuid[]))
           AND NOT EXISTS (SELECT 1 FROM memforest.maintenance o
                            WHERE o.tenant_id = :t AND o.kind = k.kind AND o.subject = k.subject
                              AND o.state IN ('held', 'ready', 'running'))
           AND (kind IN ('erase', 'correct') OR NOT EXISTS (
                           SELECT 1 FROM memforest.maintenance_forest mine
                             JOIN memforest.maintenance_forest theirs
                               ON theirs.tenant_id = :t AND theirs.forest_id = mine.forest_id
                             JOIN memforest.maintenance o
                               ON o.tenant_id = :t AND o.task_id = theirs.task_id
                              AND o.state IN ('held', 'ready', 'running')
                            WHERE mine.tenant_id = :t AND mine.task_id = k.task_id
                              AND memforest.beside(theirs.role, mine.role) = 'refused'))
         ORDER BY kind, subject, created_at DESC)
    RETURNING task_id
    """
)

ASK_AGAIN = sa.text(
    """
    UPDATE memforest.maintenance SET asked = DEFAULT
     WHERE tenant_id = :t AND task_id = ANY(CAST(:ids AS uuid[])) AND kind NOT IN ('erase', 'correct')
    """
)

DISCARD_TASKS = sa.text(
    """
    UPDATE memforest.maintenance SET state = 'done', finished_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'dead' AND kind NOT IN ('merge', 'rematerialize')
       AND task_id = ANY(CAST(:ids AS uuid[])) RETURNING task_id
    """
)

# What was half built is taken back by workers, as after a cancel; a merge that has moved a source into a living memory
# can only be tried again.
UNDO_TASKS = sa.text(
    """
    UPDATE memforest.maintenance k
       SET state = 'ready', cancelled_by = 'memforest dead discard', attempts = 0, lost_leases = 0, finished_at = NULL,
           subject = subject || ':cancelled:' || task_id, available_at = clock_timestamp()
     WHERE tenant_id = :t AND state = 'dead' AND kind IN ('merge', 'rematerialize')
       AND task_id = ANY(CAST(:ids AS uuid[]))
       AND NOT (kind = 'merge' AND progress ->> 'phase' IN ('merge', 'end') AND (progress ->> 'next')::int > 0
                AND EXISTS (SELECT 1 FROM memforest.forest f
                             WHERE f.tenant_id = :t AND f.forest_id = k.forest_id AND f.state <> 'hidden'))
    RETURNING task_id
    """
)
