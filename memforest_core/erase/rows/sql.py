"""What erasing asks of Postgres, in sets: a constant number of statements for any batch."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.erase.records import Target
from memforest_core.extract.rows import CONTEXT_TURNS
from memforest_core.store.trees import NEXT_VERSION

MAX_WINDOW_TURNS = 16
"""A window has at most so many turns: a candidate rests on no turn that lies further on."""

CELL_CHARS = 6_000
"""About how many characters of a long turn a cell holds."""

# Turns of a batch as (session, ordinal), candidates as (cell, item).
TURNS = "unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[])) AS u(session, ordinal)"
ITEMS = "unnest(CAST(:cells AS uuid[]), CAST(:items AS smallint[])) AS u(cell, item)"
IDS = "ANY(CAST(:ids AS uuid[]))"

# What is salted with the forest can't be looked up in another one.
_DIGEST = (
    "encode(sha256(convert_to(CAST(CAST(:f AS uuid) AS text) || chr(31) || x.speaker_id, 'UTF8')), 'hex') = :speaker"
)
_WITHIN = (
    "(CAST(:since AS timestamptz) IS NULL OR x.occurred_at >= CAST(:since AS timestamptz))"
    " AND (CAST(:until AS timestamptz) IS NULL OR x.occurred_at < CAST(:until AS timestamptz))"
)
_NAMED = """SELECT x.session_id, x.ordinal, x.content FROM memforest.turn x
             WHERE x.tenant_id = :t AND x.session_id = :session AND x.ordinal = ANY(CAST(:ordinals AS int[]))
               AND NOT x.erased ORDER BY x.ordinal LIMIT :most"""


def _said(condition: str) -> str:
    return f"""SELECT x.* FROM (SELECT session_id FROM memforest.session
                                 WHERE tenant_id = :t AND forest_id = :f AND session_id >= :after
                                 ORDER BY session_id) s
      CROSS JOIN LATERAL (SELECT x.session_id, x.ordinal, x.content FROM memforest.turn x
                           WHERE x.tenant_id = :t AND x.session_id = s.session_id AND NOT x.erased AND {condition}
                           ORDER BY x.ordinal LIMIT :most) x
      ORDER BY x.session_id, x.ordinal LIMIT :most"""


def _bounded(picked: str) -> sa.TextClause:
    """The first of these turns that together are no more than so many cells, and at least one."""
    return sa.text(
        f"""
        SELECT session_id, ordinal FROM (
            SELECT session_id, ordinal, row_number() OVER w AS place,
                   sum(1 + 2 * (length(content) / {CELL_CHARS})) OVER w AS cost
              FROM ({picked}) p WINDOW w AS (ORDER BY session_id, ordinal)) q
         WHERE cost <= :most OR place = 1 ORDER BY session_id, ordinal
        """
    )


DOOMED = {
    Target.TURNS: _bounded(_NAMED),
    Target.RANGE: _bounded(_said(_WITHIN)),
    Target.SPEAKER: _bounded(_said(_DIGEST)),
}

SPEAKS = sa.text(
    """
    SELECT EXISTS (SELECT 1 FROM memforest.session s JOIN memforest.turn x
                       ON x.tenant_id = :t AND x.session_id = s.session_id
                    WHERE s.tenant_id = :t AND s.forest_id = :f AND x.speaker_id = :speaker)
    """
)

# From the lowest turn of its last cells on, so that no turn is cut apart.
TAIL = sa.text(
    """
    SELECT s.session_id, x.ordinal FROM memforest.session s
      LEFT JOIN memforest.turn x ON x.tenant_id = :t AND x.session_id = s.session_id AND x.ordinal >= coalesce((
            SELECT min(c.first_turn) FROM (
                SELECT first_turn FROM memforest.cell WHERE tenant_id = :t AND session_id = :session
                 ORDER BY ordinal DESC LIMIT :most) c), 0)
     WHERE s.tenant_id = :t AND s.session_id = :session ORDER BY x.ordinal
    """
)

TURNS_OF = sa.text(
    f"""
    SELECT DISTINCT x.session_id, x.ordinal FROM memforest.cell c
      JOIN memforest.turn x ON x.tenant_id = :t AND x.session_id = c.session_id
           AND x.ordinal BETWEEN c.first_turn AND c.last_turn
     WHERE c.tenant_id = :t AND c.cell_id = {IDS} AND NOT x.erased ORDER BY 1, 2
    """
)

HOLD_SESSIONS = sa.text(
    f"""
    SELECT session_id FROM memforest.session WHERE tenant_id = :t AND session_id = {IDS}
     ORDER BY session_id FOR NO KEY UPDATE
    """
)

# All that this transaction changes, in one ordered statement: who ends an extraction locks the cells of its window.
LOCK_CELLS = sa.text(
    f"""
    SELECT c.cell_id FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:held AS uuid[]))
       AND (c.state = 'running' OR (c.session_id, c.window_ordinal) IN (
            SELECT w.session_id, w.window_ordinal FROM memforest.cell w
             WHERE w.tenant_id = :t AND w.session_id = ANY(CAST(:held AS uuid[]))
               AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = w.session_id
                              AND u.ordinal BETWEEN w.first_turn AND w.last_turn)))
     ORDER BY c.cell_id FOR UPDATE OF c
    """
)

HOLD_CELLS = sa.text(
    f"""
    SELECT c.cell_id, c.session_id, c.ordinal FROM memforest.cell c
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:held AS uuid[]))
       AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id
                      AND u.ordinal BETWEEN c.first_turn AND c.last_turn)
     ORDER BY c.cell_id FOR UPDATE
    """
)

KEPT = sa.text(
    f"""
    SELECT c.cell_id, x.ordinal, x.name, x.content FROM memforest.cell c
      JOIN memforest.turn x ON x.tenant_id = :t AND x.session_id = c.session_id
           AND x.ordinal BETWEEN c.first_turn AND c.last_turn
     WHERE c.tenant_id = :t AND c.cell_id = {IDS} AND NOT x.erased
       AND NOT EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = x.session_id AND u.ordinal = x.ordinal)
     ORDER BY c.cell_id, x.ordinal
    """
)

DOOMED_ITEMS = sa.text(
    f"""
    SELECT k.cell_id, k.item FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:held AS uuid[]))
       AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id
                      AND u.ordinal BETWEEN c.first_turn AND c.last_turn + {MAX_WINDOW_TURNS})
       AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id AND u.ordinal = ANY(k.turn_ordinals))
     UNION
    SELECT k.cell_id, k.item FROM memforest.candidate k WHERE k.tenant_id = :t AND k.cell_id = {IDS}
    """
)

ITEMS_OF = sa.text(f"SELECT cell_id, item FROM memforest.occurrence WHERE tenant_id = :t AND fact_id = {IDS}")

ITEM_HASHES = sa.text(
    f"""
    SELECT h.hash FROM {ITEMS} JOIN memforest.candidate k
        ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
     CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS h(hash)
    """
)

ABOVE = sa.text(
    f"""
    WITH RECURSIVE path AS (
        SELECT n.parent_id AS node_id FROM memforest.node n
         WHERE n.tenant_id = :t AND n.payload_id = {IDS} AND n.parent_id IS NOT NULL
        UNION
        SELECT n.parent_id FROM path CROSS JOIN LATERAL (
               SELECT parent_id FROM memforest.node WHERE tenant_id = :t AND node_id = path.node_id LIMIT 1) n
         WHERE n.parent_id IS NOT NULL)
    SELECT node_id FROM path
    """
)

SCOPES = sa.text(f"SELECT DISTINCT tree_id FROM memforest.placement WHERE tenant_id = :t AND payload_id = {IDS}")

HOLD_POINTS = sa.text(
    f"""
    SELECT point_id, deleted FROM memforest.index_row WHERE tenant_id = :t AND point_id = {IDS}
     ORDER BY point_id FOR UPDATE
    """
)

# Among the lost candidates first the one that most likely worded the fact: by it the fact went to its scenes.
LOSING = sa.text(
    f"""
    SELECT o.fact_id, k.routing_hash FROM {ITEMS}
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = u.cell AND o.item = u.item
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
      JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = o.fact_id
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
     ORDER BY o.fact_id, k.text_hash <> f.text_hash, c.session_id, c.ordinal, o.item DESC
    """
)

DETACH = sa.text(
    f"""
    DELETE FROM memforest.occurrence o USING {ITEMS}
     WHERE o.tenant_id = :t AND o.cell_id = u.cell AND o.item = u.item
    """
)

# Moments are compared as such: a candidate keeps them as they were said, a fact in UTC.
TOUCHED = sa.text(
    f"""
    SELECT f.fact_id, f.pinned, f.superseded_by, f.superseded_at,
           EXISTS (SELECT 1 FROM memforest.occurrence o
                     JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
                    WHERE o.tenant_id = :t AND o.fact_id = f.fact_id
                      AND k.statement - '{{start,end,mentioned_at}}'::text[]
                          = f.statement - '{{start,end,mentioned_at}}'::text[]
                      AND CAST(k.statement->>'mentioned_at' AS timestamptz) = f.mentioned_at
                      AND CAST(k.statement->>'start' AS timestamptz) IS NOT DISTINCT FROM f.time_start
                      AND CAST(k.statement->>'end' AS timestamptz) IS NOT DISTINCT FROM f.time_end) AS told
      FROM memforest.fact f WHERE f.tenant_id = :t AND f.fact_id = {IDS}
    """
)

OTHERS = sa.text(
    f"""
    SELECT fact_id, cell_id, item FROM memforest.occurrence WHERE tenant_id = :t AND fact_id = {IDS}
     ORDER BY fact_id, cell_id, item
    """
)

FREE = sa.text(f"DELETE FROM memforest.occurrence WHERE tenant_id = :t AND fact_id = {IDS}")

DROP_ITEMS = sa.text(
    f"DELETE FROM memforest.candidate k USING {ITEMS} WHERE k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item"
)

# Whoever changes what a cell says has locked its row.
HOLD_TELLING = sa.text(
    f"SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND cell_id = {IDS} ORDER BY cell_id FOR NO KEY UPDATE"
)

QUIET = sa.text(
    f"UPDATE memforest.cell SET again_at = NULL WHERE tenant_id = :t AND cell_id = {IDS} AND again_at IS NOT NULL"
)

UNPLACE = sa.text(
    f"DELETE FROM memforest.placement WHERE tenant_id = :t AND payload_id = {IDS} RETURNING tree_id, leaf_id"
)

DROP_CELLS = sa.text(f"DELETE FROM memforest.cell WHERE tenant_id = :t AND cell_id = {IDS}")

STARTS = sa.text(f"SELECT cell_id, time_start FROM memforest.cell WHERE tenant_id = :t AND cell_id = {IDS}")

# A cell begins and ends with words. Its leaf's key is its first turn: between the old one and the new lies no other.
_KEPT = "unnest(CAST(:ids AS uuid[]), CAST(:firsts AS int[])) AS u(id, first)"
REWRITE = [
    sa.text(statement)
    for statement in (
        """UPDATE memforest.cell c
              SET text = u.text, text_hash = u.hash, summary = NULL, first_turn = u.first, last_turn = u.last,
                  state = CASE WHEN c.state = 'held' THEN 'ready' ELSE c.state END,
                  available_at = CASE WHEN c.state = 'held' THEN clock_timestamp() ELSE c.available_at END
             FROM unnest(CAST(:ids AS uuid[]), CAST(:texts AS text[]), CAST(:hashes AS bytea[]), CAST(:firsts AS int[]),
                         CAST(:lasts AS int[])) AS u(id, text, hash, first, last)
            WHERE c.tenant_id = :t AND c.cell_id = u.id""",
        f"""UPDATE memforest.node n SET key_ordinal = u.first FROM {_KEPT}
             WHERE n.tenant_id = :t AND n.payload_id = u.id AND n.key_ordinal <> u.first""",
    )
]

FENCE = sa.text(
    f"""
    UPDATE memforest.cell SET state = 'ready', attempts = greatest(attempts - 1, 0), available_at = clock_timestamp(),
           lease_token = NULL, lease_until = NULL, worker_id = NULL
     WHERE tenant_id = :t AND session_id = ANY(CAST(:held AS uuid[])) AND state = 'running'
       AND (session_id, window_ordinal) IN (
            SELECT c.session_id, c.window_ordinal FROM memforest.cell c
             WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:held AS uuid[])) AND c.state = 'running'
               AND EXISTS (SELECT 1 FROM {TURNS} WHERE u.session = c.session_id
                              AND u.ordinal BETWEEN c.first_turn - {CONTEXT_TURNS} AND c.last_turn))
    """
)

# A window is claimed by its first cell. One that lost it gets another; what waits beside a first cell that does not
# wait is a window of its own.
REHEAD = [
    sa.text(statement)
    for statement in (
        f"""UPDATE memforest.cell c SET window_ordinal = w.head
              FROM (SELECT session_id, window_ordinal, min(ordinal) AS head FROM memforest.cell
                     WHERE tenant_id = :t AND session_id = {IDS} GROUP BY 1, 2) w
             WHERE c.tenant_id = :t AND c.session_id = w.session_id AND c.window_ordinal = w.window_ordinal
               AND w.head <> w.window_ordinal""",
        f"""UPDATE memforest.cell c SET window_ordinal = w.head
              FROM (SELECT session_id, window_ordinal, min(ordinal) AS head FROM memforest.cell
                     WHERE tenant_id = :t AND session_id = {IDS} AND state = 'ready' GROUP BY 1, 2) w
             WHERE c.tenant_id = :t AND c.session_id = w.session_id AND c.window_ordinal = w.window_ordinal
               AND c.state = 'ready' AND w.head <> w.window_ordinal
               AND NOT EXISTS (SELECT 1 FROM memforest.cell h WHERE h.tenant_id = :t AND h.session_id = w.session_id
                                  AND h.ordinal = w.window_ordinal AND h.state = 'running')""",
    )
]

VOICES = sa.text(
    f"""
    SELECT DISTINCT x.speaker_id, x.name FROM {TURNS}
      JOIN memforest.turn x ON x.tenant_id = :t AND x.session_id = u.session AND x.ordinal = u.ordinal
     WHERE x.role = 'user' AND NOT x.erased
    """
)

BLANK = sa.text(
    f"""
    UPDATE memforest.turn x SET content = '', name = '', speaker_id = '', metadata = '{{}}', erased = true
      FROM {TURNS} WHERE x.tenant_id = :t AND x.session_id = u.session AND x.ordinal = u.ordinal AND NOT x.erased
    """
)

CUT = sa.text(
    f"""
    DELETE FROM memforest.turn x USING {TURNS}
     WHERE x.tenant_id = :t AND x.session_id = u.session AND x.ordinal = u.ordinal
    """
)

COUNT = sa.text(
    f"""
    UPDATE memforest.session s SET updated_at = clock_timestamp(),
           turn_count = (SELECT coalesce(max(x.ordinal) + 1, 0) FROM memforest.turn x
                          WHERE x.tenant_id = :t AND x.session_id = s.session_id),
           cell_count = (SELECT coalesce(max(c.ordinal) + 1, 0) FROM memforest.cell c
                          WHERE c.tenant_id = :t AND c.session_id = s.session_id)
     WHERE s.tenant_id = :t AND s.session_id = {IDS}
    """
)

# Asked one by one, so that a voice that is heard in most sessions is found in the first.
SILENT = sa.text(
    """
    DELETE FROM memforest.speaker p
     USING unnest(CAST(:speakers AS text[]), CAST(:names AS text[])) AS u(speaker, name)
     WHERE p.tenant_id = :t AND p.forest_id = :f AND p.speaker_id = u.speaker AND p.name = u.name
       AND (SELECT 1 FROM memforest.session s
             CROSS JOIN LATERAL (SELECT 1 FROM memforest.turn x
                WHERE x.tenant_id = :t AND x.session_id = s.session_id AND x.role = 'user'
                  AND x.speaker_id = p.speaker_id AND x.name = p.name LIMIT 1) x
             WHERE s.tenant_id = :t AND s.forest_id = :f LIMIT 1) IS NULL
    """
)

DROP_SESSION = sa.text(
    """
    DELETE FROM memforest.session s WHERE s.tenant_id = :t AND s.session_id = :session
       AND NOT EXISTS (SELECT 1 FROM memforest.turn x WHERE x.tenant_id = :t AND x.session_id = s.session_id)
    """
)

SUCCESSORS = sa.text(
    """
    SELECT DISTINCT ON (u.old) u.old, o.fact_id
      FROM unnest(CAST(:olds AS uuid[]), CAST(:cells AS uuid[]), CAST(:items AS smallint[])) AS u(old, cell, item)
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = u.cell AND o.item = u.item
     ORDER BY u.old, o.cell_id, o.item
    """
)

CARRY = sa.text(
    """
    UPDATE memforest.fact f SET pinned = f.pinned OR u.pinned,
           superseded_by = CASE WHEN u.by <> f.fact_id THEN coalesce(f.superseded_by, u.by) ELSE f.superseded_by END,
           superseded_at = CASE WHEN u.by <> f.fact_id THEN coalesce(f.superseded_at, u.at) ELSE f.superseded_at END
      FROM unnest(CAST(:news AS uuid[]), CAST(:pins AS boolean[]), CAST(:bys AS uuid[]), CAST(:ats AS timestamptz[]))
           AS u(new, pinned, by, at)
     WHERE f.tenant_id = :t AND f.fact_id = u.new
    """
)

REPOINT = sa.text(
    """
    UPDATE memforest.fact f SET superseded_by = u.new
      FROM unnest(CAST(:olds AS uuid[]), CAST(:news AS uuid[])) AS u(old, new)
     WHERE f.tenant_id = :t AND f.forest_id = :f AND f.superseded_by = u.old AND f.fact_id <> u.new
    """
)

UNPOINT = sa.text(
    f"""
    UPDATE memforest.fact SET superseded_by = NULL, superseded_at = NULL
     WHERE tenant_id = :t AND forest_id = :f AND superseded_by = {IDS}
    """
)

DROP_SCOPES = sa.text(
    f"""
    DELETE FROM memforest.tree r WHERE r.tenant_id = :t AND r.tree_id = {IDS} AND r.root_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM memforest.placement p WHERE p.tenant_id = :t AND p.tree_id = r.tree_id)
    """
)

MASK = sa.text(
    f"""
    DELETE FROM memforest.node_summary WHERE tenant_id = :t AND node_id = {IDS}
    RETURNING sha256(convert_to(text, 'UTF8')) AS hash
    """
)

MARK = sa.text(
    f"""
    UPDATE memforest.node SET version = version + 1, erased_version = version WHERE tenant_id = :t AND node_id = {IDS}
    RETURNING node_id
    """
)

DUE = sa.text(
    f"""
    UPDATE memforest.tree SET marks = marks + 1, last_mark_at = now(), first_mark_at = coalesce(first_mark_at, now()),
           due_at = now()
     WHERE tenant_id = :t AND tree_id = {IDS} AND state = 'active'
    """
)

FORGET_VISITS = sa.text(
    f"""
    WITH held AS MATERIALIZED (
        SELECT item_id FROM memforest.visit WHERE tenant_id = :t AND item_id = {IDS} ORDER BY item_id FOR UPDATE)
    DELETE FROM memforest.visit WHERE tenant_id = :t AND item_id IN (SELECT item_id FROM held)
    """
)

DROP_ANSWERS = sa.text(
    "DELETE FROM memforest.extraction_cache WHERE tenant_id = :t AND session_id = ANY(CAST(:sessions AS uuid[]))"
)

DROP_PAID = sa.text(
    """
    DELETE FROM memforest.summary_cache WHERE tenant_id = :t AND (tree_id = ANY(CAST(:trees AS uuid[]))
        OR tree_id IN (SELECT tree_id FROM memforest.tree
                        WHERE tenant_id = :t AND forest_id = :f AND kind = 'scene' AND state = 'merged'))
    """
)

NOW = sa.text("SELECT nextval('memforest.point_version')")

# Points that may hold what was erased before :mark. Who is writing one takes it away by itself.
ERASED = sa.text(
    """
    SELECT point_id, version FROM memforest.index_row
     WHERE tenant_id = :t AND forest_id = :f AND erased_version > 0 AND erased_version < :mark
       AND state <> 'running' AND point_id > :after
     ORDER BY point_id LIMIT :n
    """
)

_STILL_ERASED = """SELECT 1 FROM memforest.index_row
     WHERE tenant_id = :t AND forest_id = :f AND erased_version > 0 AND erased_version < :mark"""
STILL_ERASED = sa.text(f"SELECT EXISTS ({_STILL_ERASED})")
STILL_WRITTEN = sa.text(f"SELECT EXISTS ({_STILL_ERASED} AND state = 'running')")

CONFIRM = sa.text(
    """
    DELETE FROM memforest.index_row i
     USING unnest(CAST(:ids AS uuid[]), CAST(:versions AS bigint[])) AS u(id, version)
     WHERE i.tenant_id = :t AND i.point_id = u.id AND i.version = u.version AND i.deleted AND i.state <> 'running'
    """
)

# Whoever has one of these in work now has read it after it was erased, but its point may have gone with the old one.
REVIVE = sa.text(
    f"""
    UPDATE memforest.index_row i
       SET version = {NEXT_VERSION}, state = CASE i.state WHEN 'running' THEN 'running' ELSE 'ready' END, attempts = 0,
           indexed_version = 0,
           erased_version = CASE WHEN i.erased_version < :mark THEN 0 ELSE i.erased_version END,
           available_at = clock_timestamp()
     WHERE i.tenant_id = :t AND i.point_id = {IDS} AND NOT i.deleted
    RETURNING i.point_id
    """
)

# The point of a cell that says less now holds its words until the new one is written.
TAINT = sa.text(f"UPDATE memforest.index_row SET erased_version = version WHERE tenant_id = :t AND point_id = {IDS}")

# One statement parks what a forest that goes had still to do: from then on no worker finds any of it. Who is writing
# points of it keeps its lease, so that clearing can wait for it.
PARK = [
    sa.text(statement)
    for statement in (
        """UPDATE memforest.cell SET state = CASE WHEN state = 'running' THEN 'ready' ELSE state END, again_at = NULL,
               lease_token = NULL, lease_until = NULL, worker_id = NULL,
               available_at = clock_timestamp() + interval '100 years'
            WHERE tenant_id = :t AND forest_id = :f AND (state IN ('ready', 'held', 'running') OR again_at IS NOT NULL)
        """,
        """UPDATE memforest.index_row SET available_at = clock_timestamp() + interval '100 years'
            WHERE tenant_id = :t AND point_id IN (
               SELECT point_id FROM memforest.index_row
                WHERE tenant_id = :t AND forest_id = :f AND state = 'ready'
                ORDER BY point_id FOR UPDATE)""",
        """UPDATE memforest.tree SET due_at = NULL, first_mark_at = NULL, marks = marks + 1
            WHERE tenant_id = :t AND tree_id IN (
               SELECT tree_id FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f AND due_at IS NOT NULL
                ORDER BY tree_id FOR NO KEY UPDATE)""",
        """UPDATE memforest.forest SET state = 'gone', reduce_available_at = clock_timestamp() + interval '100 years'
            WHERE tenant_id = :t AND forest_id = :f""",
    )
]

# An owner's forest first, then what imports and merges fill for the owner, then copies of rebuilds.
FORESTS_OF = sa.text(
    """
    SELECT forest_id FROM memforest.forest
     WHERE tenant_id = :t AND owner = :owner AND state <> 'gone'
     ORDER BY state = 'hidden', rules ? 'held', forest_id
    """
)

IMPORTS_INTO = sa.text(
    """
    SELECT k.task_id FROM memforest.maintenance k
     WHERE k.tenant_id = :t AND k.kind = 'import' AND k.state = 'held' AND k.forest_id = ANY(CAST(:ids AS uuid[]))
     ORDER BY k.task_id
    """
)

MERGED_BEFORE = sa.text(
    """
    SELECT EXISTS (
        SELECT 1 FROM memforest.maintenance k
          JOIN memforest.maintenance_forest mine ON mine.tenant_id = :t AND mine.task_id = k.task_id
          JOIN memforest.maintenance_forest theirs
            ON theirs.tenant_id = :t AND theirs.forest_id = mine.forest_id AND theirs.role LIKE 'merge%'
          JOIN memforest.maintenance o
            ON o.tenant_id = :t AND o.task_id = theirs.task_id AND o.state IN ('ready', 'running')
           AND o.asked < k.asked
         WHERE k.tenant_id = :t AND k.task_id = :task)
    """
)

TO_HIDE = sa.text(
    """
    SELECT f.forest_id FROM memforest.maintenance_forest x
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = x.forest_id AND f.state <> 'gone'
     WHERE x.tenant_id = :t AND x.task_id = :task ORDER BY f.forest_id
    """
)

_COPY = "(f.state = 'gone' OR (f.state = 'hidden' AND f.rules ? 'held'))"

COPIES_OF = sa.text(
    f"""
    SELECT f.forest_id FROM memforest.forest o
      JOIN memforest.forest f ON f.tenant_id = :t AND f.owner = o.owner AND f.forest_id <> o.forest_id AND {_COPY}
     WHERE o.tenant_id = :t AND o.forest_id = :f
    """
)

# What is built anew for an owner, or was and is on its way out, holds the same words.
TOUCH_UNSEEN = sa.text(
    f"""
    INSERT INTO memforest.maintenance_forest (tenant_id, task_id, forest_id, role)
    SELECT DISTINCT CAST(:t AS text), CAST(:task AS uuid), f.forest_id, 'erase'
      FROM memforest.maintenance_forest x
      JOIN memforest.forest o ON o.tenant_id = :t AND o.forest_id = x.forest_id
      JOIN memforest.forest f ON f.tenant_id = :t AND f.owner = o.owner AND {_COPY}
     WHERE x.tenant_id = :t AND x.task_id = :task
    ON CONFLICT DO NOTHING
    """
)

ALL_ASKED_FOR = sa.text(
    """
    SELECT EXISTS (SELECT 1 FROM memforest.maintenance
                    WHERE tenant_id = :t AND forest_id = :f AND kind = 'erase' AND arguments ->> 'target' = 'owner'
                      AND NOT arguments ? 'dry_run' AND cancelled_by IS NULL)
    """
)
