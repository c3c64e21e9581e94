"""The statements that copy a forest, compare it with its source, and carry over what people have said about facts."""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.facts import CORRECTED_ITEM

PARKED = "9000-01-01T00:00:00Z"
"""When the place of a cell that waits for extraction elsewhere would be due: never."""

CARRIED_FROM = 16_000
"""Items of candidates that a new extraction left out though their fact is pinned: above any number of corrections."""
BEGIN = sa.text(
    """
    INSERT INTO memforest.forest (tenant_id, forest_id, owner, time_zone, display_name, created_at, state, rules)
    SELECT tenant_id, :copy, owner, time_zone, display_name, created_at, 'hidden', :rules FROM memforest.forest
     WHERE tenant_id = :t AND forest_id = :source
    ON CONFLICT (tenant_id, forest_id) DO NOTHING
    """
)

FORGET_SUMMARIES = sa.text("DELETE FROM memforest.summary_cache WHERE tenant_id = :t AND forest_id = :source")

SESSIONS_AFTER = sa.text(
    """
    SELECT session_id, turn_count FROM memforest.session
     WHERE tenant_id = :t AND forest_id = :source AND session_id > :after ORDER BY session_id LIMIT :n
    """
)

# In the source a cell that is not extracted is on its way; in the copy it is a place that is kept for it.
_ON_ITS_WAY = """CASE WHEN s.forest_id = :copy THEN c.state = 'held'
                      ELSE NOT (c.placed OR c.state IN ('done', 'dead')) END"""

_CELLS = f"""(SELECT bit_xor(hashtextextended(concat_ws(' ', c.ordinal, c.first_turn, c.last_turn,
                    encode(c.text_hash, 'hex'), {_ON_ITS_WAY}), 0))
                FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = s.session_id)"""

_ERASED = """(SELECT bit_xor(hashtextextended(x.ordinal::text, 0)) FROM memforest.turn x
               WHERE x.tenant_id = :t AND x.session_id = s.session_id AND x.erased)"""

_CANDIDATES = f"""(SELECT bit_xor(hashtextextended(concat_ws(' ', c.ordinal, k.item, encode(k.text_hash, 'hex')), 0))
                     FROM memforest.cell c
                     JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= 0
                    WHERE c.tenant_id = :t AND c.session_id = s.session_id AND NOT :extract
                      AND NOT ({_ON_ITS_WAY}))"""

# What makes two sessions the same, in numbers that do not depend on the order of rows.
DIFFERING = sa.text(
    f"""
    WITH named AS (SELECT external_id FROM memforest.session WHERE tenant_id = :t AND session_id = :session),
    digest AS MATERIALIZED (
        SELECT s.session_id, s.forest_id, s.external_id, concat_ws(' ', s.turn_count, s.cell_count, {_CELLS}) AS cells,
               coalesce({_ERASED}, 0) AS erased, coalesce({_CANDIDATES}, 0) AS candidates
          FROM memforest.session s
         WHERE s.tenant_id = :t AND s.forest_id IN (:source, :copy)
           AND (CAST(:session AS uuid) IS NULL OR s.external_id = (SELECT external_id FROM named)))
    SELECT a.session_id AS source, b.session_id AS copy
      FROM (SELECT * FROM digest WHERE forest_id = :source) a
      FULL JOIN (SELECT * FROM digest WHERE forest_id = :copy) b ON b.external_id = a.external_id
     WHERE (a.cells, a.erased, a.candidates) IS DISTINCT FROM (b.cells, b.erased, b.candidates)
     ORDER BY a.session_id LIMIT :n
    """
)

LOCK_SESSION = sa.text(
    """
    SELECT external_id FROM memforest.session WHERE tenant_id = :t AND session_id = :old AND forest_id = :source
       FOR SHARE
    """
)

COPY_SESSION = sa.text(
    """
    INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at, turn_count,
           cell_count, lane, metadata, trace, created_at, updated_at, origin_owner)
    SELECT tenant_id, :new, :copy, external_id, time_zone, started_at, turn_count, cell_count, lane, metadata, trace,
           created_at, updated_at, origin_owner
      FROM memforest.session WHERE tenant_id = :t AND session_id = :old
    ON CONFLICT (tenant_id, session_id) DO UPDATE
    SET turn_count = excluded.turn_count, cell_count = excluded.cell_count, metadata = excluded.metadata,
        updated_at = excluded.updated_at, origin_owner = excluded.origin_owner
    """
)

COPY_TURNS = sa.text(
    """
    INSERT INTO memforest.turn (tenant_id, session_id, ordinal, external_id, role, content, occurred_at, dated,
           speaker_id, name, metadata, erased)
    SELECT tenant_id, :new, ordinal, external_id, role, content, occurred_at, dated, speaker_id, name, metadata, erased
      FROM memforest.turn WHERE tenant_id = :t AND session_id = :old
       AND ordinal > coalesce((SELECT max(ordinal) FROM memforest.turn WHERE tenant_id = :t AND session_id = :new), -1)
    """
)

COPY_SPEAKERS = sa.text(
    """
    INSERT INTO memforest.speaker (tenant_id, forest_id, speaker_id, name)
    SELECT tenant_id, :copy, speaker_id, name FROM memforest.speaker WHERE tenant_id = :t AND forest_id = :source
    ON CONFLICT DO NOTHING
    """
)

# A cell whose words are all deleted has nothing to extract; its window is left out if all of it is like that.
CELLS = sa.text(
    """
    SELECT c.cell_id, c.ordinal, c.state, c.placed,
           NOT (c.placed OR c.state IN ('done', 'dead')) AS on_its_way,
           NOT EXISTS (SELECT 1 FROM memforest.cell w
                         JOIN memforest.turn x ON x.tenant_id = :t AND x.session_id = w.session_id
                          AND x.ordinal BETWEEN w.first_turn AND w.last_turn AND NOT x.erased
                        WHERE w.tenant_id = :t AND w.session_id = c.session_id
                          AND w.window_ordinal = c.window_ordinal) AS erased
      FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = :old ORDER BY c.ordinal
    """
)

DROP_PLACES = sa.text(
    """
    DELETE FROM memforest.cell WHERE tenant_id = :t AND session_id = :new AND state = 'held'
    RETURNING cell_id, ordinal
    """
)

COPY_CELLS = sa.text(
    f"""
    INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn,
           last_turn, char_start, char_end, text, text_hash, time_start, time_end, lane, created_at, summary, agains,
           state, outcome, extracted_at, available_at, error_code, error_text)
    SELECT c.tenant_id, u.new, :copy, :new, c.ordinal, c.window_ordinal, c.first_turn, c.last_turn, c.char_start,
           c.char_end, c.text, c.text_hash, c.time_start, c.time_end, 1, c.created_at, c.summary,
           CASE WHEN u.state = 'ready' THEN 0 ELSE c.agains END, u.state,
           CASE WHEN u.state IN ('ready', 'held') THEN NULL WHEN :extract THEN 'empty'
                ELSE coalesce(c.outcome, 'ok') END,
           CASE WHEN u.state = 'done' THEN coalesce(c.extracted_at, c.created_at) END,
           CASE WHEN u.state = 'held' THEN timestamptz '{PARKED}' ELSE clock_timestamp() END,
           CASE WHEN u.state = 'dead' THEN c.error_code END, CASE WHEN u.state = 'dead' THEN c.error_text END
      FROM unnest(CAST(:olds AS uuid[]), CAST(:news AS uuid[]), CAST(:states AS text[])) AS u(old, new, state)
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = u.old
    ON CONFLICT (tenant_id, cell_id) DO NOTHING
    """
)

COPY_CANDIDATES = sa.text(
    """
    INSERT INTO memforest.candidate (tenant_id, cell_id, item, turn_ordinals, quote, statement, text_hash, routing_hash)
    SELECT k.tenant_id, u.new, k.item, k.turn_ordinals, k.quote, k.statement, k.text_hash, k.routing_hash
      FROM unnest(CAST(:olds AS uuid[]), CAST(:news AS uuid[])) AS u(old, new)
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = u.old AND k.item >= 0
    ON CONFLICT (tenant_id, cell_id, item) DO NOTHING
    """
)

# All that the session's texts have: what is extracted anew mostly says the same. What is left over goes at the switch.
COPY_VECTORS = sa.text(
    """
    INSERT INTO memforest.vector (tenant_id, forest_id, model, text_hash, vector)
    SELECT :t, :copy, v.model, v.text_hash, v.vector
      FROM (SELECT c.text_hash AS hash FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = :old
             UNION
            SELECT h.hash FROM memforest.cell c JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
             CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS h(hash)
             WHERE c.tenant_id = :t AND c.session_id = :old) u
      JOIN memforest.vector v ON v.tenant_id = :t AND v.forest_id = :source AND v.text_hash = u.hash
       AND v.model IN (SELECT model FROM memforest.collection)
     ORDER BY v.model, v.text_hash
    ON CONFLICT DO NOTHING
    """
)

SET_ASIDE = sa.text(
    """
    UPDATE memforest.candidate SET item = -1 - item
     WHERE tenant_id = :t AND item >= 0 AND cell_id IN (
           SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND session_id = :session)
    """
)

DROP_SESSION = [
    sa.text(statement)
    for statement in (
        """DELETE FROM memforest.placement WHERE tenant_id = :t AND tree_id IN (
                  SELECT tree_id FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f AND session_id = :s)""",
        """DELETE FROM memforest.node WHERE tenant_id = :t AND tree_id IN (
                  SELECT tree_id FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f AND session_id = :s)""",
        "DELETE FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f AND session_id = :s",
        """DELETE FROM memforest.candidate WHERE tenant_id = :t AND cell_id IN (
                  SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND session_id = :s)""",
        "DELETE FROM memforest.cell WHERE tenant_id = :t AND session_id = :s",
        "DELETE FROM memforest.turn WHERE tenant_id = :t AND session_id = :s",
        "DELETE FROM memforest.session WHERE tenant_id = :t AND session_id = :s",
    )
]

SESSION_NODES = sa.text(
    """
    SELECT n.node_id FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.session_id = :s AND r.kind = 'session' ORDER BY n.node_id
    """
)

REMAINING = sa.text(
    """
    SELECT count(*) FILTER (WHERE c.state IN ('ready', 'running')) AS extracting,
           count(*) FILTER (WHERE c.state = 'done' AND NOT c.placed) AS placing,
           count(*) FILTER (WHERE c.state = 'dead') AS dead,
           (SELECT count(*) FROM memforest.tree r
             WHERE r.tenant_id = :t AND r.forest_id = :f AND r.due_at IS NOT NULL) AS trees,
           (SELECT count(*) FROM memforest.index_row i
             WHERE i.tenant_id = :t AND i.forest_id = :f AND i.state IN ('ready', 'running')) AS points
      FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = :f
    """
)

MAKE_DUE = sa.text(
    """
    UPDATE memforest.tree SET due_at = clock_timestamp() WHERE tenant_id = :t AND tree_id IN (
        SELECT tree_id FROM memforest.tree
         WHERE tenant_id = :t AND forest_id = :f AND due_at > clock_timestamp()
         ORDER BY tree_id FOR NO KEY UPDATE SKIP LOCKED)
    """
)

# Facts of the two forests that rest on the same statement of the same cell. Ids, item numbers, and which of several
# wordings names a fact may differ; text and time of a statement do not, unless it was extracted anew: then it is the
# same if the same turns say that somebody's state is the same.
_SAME = f"""
      FROM memforest.fact f
      JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = f.fact_id AND o.item >= 0
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = o.cell_id
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
      JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
      JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal
      JOIN memforest.candidate l ON l.tenant_id = :t AND l.cell_id = d.cell_id AND l.item >= 0
       AND ((l.text_hash = k.text_hash AND l.statement -> 'start' = k.statement -> 'start'
             AND l.statement -> 'end' = k.statement -> 'end')
            OR (:extract AND l.turn_ordinals = k.turn_ordinals AND k.statement ->> 'attribute' <> ''
                AND (l.item >= {CORRECTED_ITEM}) = (k.item >= {CORRECTED_ITEM})
                AND (lower(l.statement ->> 'subject'), l.statement -> 'attribute', lower(l.statement ->> 'value'))
                  = (lower(k.statement ->> 'subject'), k.statement -> 'attribute', lower(k.statement ->> 'value'))))
      JOIN memforest.occurrence q ON q.tenant_id = :t AND q.cell_id = l.cell_id AND q.item = l.item
      JOIN memforest.fact n ON n.tenant_id = :t AND n.fact_id = q.fact_id
     WHERE f.tenant_id = :t AND f.forest_id = :source"""

_ABOUT = """(f.pinned OR f.superseded_at IS NOT NULL OR f.fact_id IN (
            SELECT superseded_by FROM memforest.fact
             WHERE tenant_id = :t AND forest_id = :source AND superseded_by IS NOT NULL))"""

CARRY_STATES = sa.text(
    f"""
    WITH same AS MATERIALIZED (
        SELECT DISTINCT f.fact_id AS old, f.pinned, f.superseded_by, f.superseded_at, n.fact_id AS new,
               f.normalized = n.normalized AS alike {_SAME} AND {_ABOUT}),
    successor AS (SELECT DISTINCT ON (old) old, new FROM same ORDER BY old, alike DESC, new),
    wanted AS (
        SELECT DISTINCT ON (a.new) a.new, bool_or(a.pinned) OVER (PARTITION BY a.new) AS pinned,
               CASE WHEN b.new <> a.new THEN b.new END AS superseded_by,
               CASE WHEN b.new <> a.new THEN a.superseded_at END AS superseded_at
          FROM same a LEFT JOIN successor b ON b.old = a.superseded_by
         ORDER BY a.new, (CASE WHEN b.new <> a.new THEN a.superseded_at END) NULLS LAST, b.new),
    now AS (
        SELECT g.fact_id, g.superseded_at AS before, coalesce(w.pinned, false) AS pinned, w.superseded_by,
               w.superseded_at
          FROM memforest.fact g LEFT JOIN wanted w ON w.new = g.fact_id
         WHERE g.tenant_id = :t AND g.forest_id = :copy
           AND (w.new IS NOT NULL OR g.pinned OR g.superseded_at IS NOT NULL)
           AND (g.pinned, g.superseded_by, g.superseded_at)
               IS DISTINCT FROM (coalesce(w.pinned, false), w.superseded_by, w.superseded_at))
    UPDATE memforest.fact g
       SET pinned = now.pinned, superseded_by = now.superseded_by, superseded_at = now.superseded_at
      FROM now WHERE g.tenant_id = :t AND g.fact_id = now.fact_id
    RETURNING g.fact_id, (now.before IS NULL) <> (now.superseded_at IS NULL) AS changed
    """
)

# A new extraction may leave out what people have said explicitly: those candidates are added to it.
CARRY_CANDIDATES = sa.text(
    f"""
    WITH explicit AS (
        SELECT k.cell_id, k.item, k.item AS into_item FROM memforest.cell c
          JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= {CORRECTED_ITEM}
         WHERE c.tenant_id = :t AND c.forest_id = :source),
    found AS (SELECT DISTINCT f.fact_id {_SAME} AND f.pinned),
    pinned AS (
        SELECT DISTINCT ON (f.fact_id) o.cell_id, o.item, {CARRIED_FROM} + o.item AS into_item
          FROM memforest.fact f
          JOIN memforest.occurrence o ON o.tenant_id = :t AND o.fact_id = f.fact_id
           AND o.item BETWEEN 0 AND {CORRECTED_ITEM - 1}
         WHERE f.tenant_id = :t AND f.forest_id = :source AND f.pinned AND f.fact_id NOT IN (SELECT fact_id FROM found)
         ORDER BY f.fact_id, o.cell_id, o.item),
    added AS (
        INSERT INTO memforest.candidate (tenant_id, cell_id, item, turn_ordinals, quote, statement, text_hash,
               routing_hash)
        SELECT :t, d.cell_id, w.into_item, k.turn_ordinals, k.quote, k.statement, k.text_hash, k.routing_hash
          FROM (SELECT * FROM explicit UNION SELECT * FROM pinned) w
          JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = w.cell_id AND k.item = w.item
          JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = w.cell_id
          JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
          JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
          JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal
           AND d.state = 'done'
        ON CONFLICT (tenant_id, cell_id, item) DO NOTHING
        RETURNING cell_id)
    UPDATE memforest.cell c SET placed = false, lane = 1
      FROM (SELECT DISTINCT cell_id FROM added) a WHERE c.tenant_id = :t AND c.cell_id = a.cell_id
    """
)

DELETING = """EXISTS (SELECT 1 FROM memforest.maintenance_forest x
                     JOIN memforest.maintenance k
                       ON k.tenant_id = :t AND k.task_id = x.task_id AND k.state <> 'done'
                    WHERE x.tenant_id = :t AND x.forest_id = :source AND x.role = 'erase')"""

BEING_DELETED_FROM = sa.text(f"SELECT {DELETING}")

KEEP_COPY = sa.text(
    """
    SELECT 1 FROM memforest.forest WHERE tenant_id = :t AND forest_id = :copy AND state = 'hidden' FOR KEY SHARE
    """
)

# What is asked of the live forest names its facts and sessions: the switch comes after it.
BUSY = sa.text(
    f"""
    SELECT {DELETING}
        OR EXISTS (SELECT 1 FROM memforest.maintenance_forest x
                     JOIN memforest.maintenance k
                       ON k.tenant_id = :t AND k.task_id = x.task_id AND k.state IN ('held', 'ready', 'running')
                    WHERE x.tenant_id = :t AND x.forest_id = :source AND x.role = 'correct')
        OR EXISTS (SELECT 1 FROM memforest.cell
                    WHERE tenant_id = :t AND forest_id = :source AND state = 'running' AND NOT placed)
        OR EXISTS (SELECT 1 FROM memforest.forest
                    WHERE tenant_id = :t AND forest_id = :source AND state = 'frozen')
    """
)

# A policy that waits for the switch is applied to the new forest.
FOLLOW = [
    sa.text(statement)
    for statement in (
        """UPDATE memforest.maintenance k SET forest_id = :copy
             FROM memforest.maintenance_forest x
            WHERE k.tenant_id = :t AND k.forest_id = :source AND k.state IN ('ready', 'dead')
              AND x.tenant_id = :t AND x.task_id = k.task_id AND x.forest_id = :source AND x.role = 'retain'""",
        """UPDATE memforest.maintenance_forest SET forest_id = :copy
            WHERE tenant_id = :t AND forest_id = :source AND role = 'retain'""",
    )
]

LOCK_SOURCE = sa.text("SELECT state FROM memforest.forest WHERE tenant_id = :t AND forest_id = :source FOR UPDATE")

# What still waits for extraction goes on in the copy where it stood; what was kept word by word is tried again there.
SWITCH = [
    sa.text(statement)
    for statement in (
        """UPDATE memforest.cell d
              SET state = CASE WHEN c.state = 'held' THEN 'held' ELSE 'ready' END, lane = c.lane,
                  window_ordinal = c.window_ordinal,
                  available_at = CASE WHEN c.state = 'running' THEN clock_timestamp() ELSE c.available_at END
             FROM memforest.cell c
             JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
             JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
            WHERE c.tenant_id = :t AND c.forest_id = :source AND NOT (c.placed OR c.state IN ('done', 'dead'))
              AND d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal AND d.state = 'held'""",
        """UPDATE memforest.cell d SET again_at = c.again_at
             FROM memforest.cell c
             JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
             JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
            WHERE c.tenant_id = :t AND c.forest_id = :source AND c.again_at IS NOT NULL
              AND d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal
              AND d.state = 'done' AND d.outcome = 'verbatim'""",
        "UPDATE memforest.retention_policy SET forest_id = :copy WHERE tenant_id = :t AND forest_id = :source",
        f"""INSERT INTO memforest.visit (tenant_id, item_id, forest_id, visits, last_visit_at)
            SELECT :t, v.item, :copy, sum(v.visits), max(v.last_visit_at) FROM (
                SELECT DISTINCT n.fact_id AS item, w.item_id, w.visits, w.last_visit_at {
            _SAME.replace(
                "FROM memforest.fact f",
                "FROM memforest.visit w JOIN memforest.fact f ON w.tenant_id = :t AND w.item_id = f.fact_id",
                1,
            )
        }
                UNION ALL
                SELECT d.cell_id, w.item_id, w.visits, w.last_visit_at
                  FROM memforest.visit w
                  JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = w.item_id
                  JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = c.session_id
                  JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
                  JOIN memforest.cell d ON d.tenant_id = :t AND d.session_id = z.session_id AND d.ordinal = c.ordinal
                 WHERE w.tenant_id = :t AND w.forest_id = :source) v
             GROUP BY v.item
            ON CONFLICT (tenant_id, item_id) DO UPDATE
            SET visits = excluded.visits, last_visit_at = excluded.last_visit_at""",
        "UPDATE memforest.forest SET state = 'gone' WHERE tenant_id = :t AND forest_id = :source",
        """UPDATE memforest.forest c SET state = 'live', rules = c.rules - 'held', display_name = s.display_name
             FROM memforest.forest s
            WHERE c.tenant_id = :t AND c.forest_id = :copy AND s.tenant_id = :t AND s.forest_id = :source""",
    )
]

_MOVED = """FROM memforest.session s
             JOIN memforest.session z ON z.tenant_id = :t AND z.forest_id = :copy AND z.external_id = s.external_id
            WHERE s.tenant_id = :t AND s.forest_id = :source"""

# Answers that were paid for, and what they cost, are the new forest's now.
ATTRIBUTE = [
    sa.text(statement)
    for statement in (
        f"""UPDATE memforest.extraction_cache e SET forest_id = :copy, session_id = m.new
              FROM (SELECT s.session_id AS old, z.session_id AS new {_MOVED}) m
             WHERE e.tenant_id = :t AND e.session_id = m.old""",
        f"""UPDATE memforest.llm_call e SET forest_id = :copy, session_id = m.new
              FROM (SELECT s.session_id AS old, z.session_id AS new {_MOVED}) m
             WHERE e.tenant_id = :t AND e.session_id = m.old""",
        "UPDATE memforest.llm_call SET forest_id = :copy WHERE tenant_id = :t AND forest_id = :source",
    )
]
