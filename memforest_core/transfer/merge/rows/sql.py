"""The statements of a merge: rows of one forest inserted under another, joined with arrays of old and new ids."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.store.trees import micros


def _ids(*names: str) -> str:
    return ", ".join(f"CAST(:{name} AS uuid[])" for name in names)


CONTENDED = sa.text(
    """
    SELECT EXISTS (
        SELECT 1 FROM memforest.maintenance k
         WHERE k.tenant_id = :t AND k.state IN ('held', 'ready', 'running') AND k.task_id <> :task
           AND k.progress <> CAST('{}' AS jsonb) AND NOT k.arguments ? 'dry_run'
           AND CASE k.kind
               WHEN 'rematerialize' THEN CAST(k.forest_id AS text) = ANY(CAST(:all AS text[]))
               WHEN 'merge' THEN k.forest_id = ANY(CAST(:sources AS uuid[]))
                    OR EXISTS (SELECT 1 FROM jsonb_each_text(k.arguments) a WHERE a.key LIKE 'source%'
                                  AND a.value = ANY(CAST(:all AS text[])))
               ELSE false END)
    """
)

UNFINISHED = sa.text(
    """
    SELECT f.forest_id FROM memforest.forest f
      JOIN memforest.maintenance k ON k.tenant_id = :t AND k.forest_id = f.forest_id AND k.kind = 'merge'
     WHERE f.tenant_id = :t AND f.owner = :owner AND f.state = 'hidden' AND k.state IN ('held', 'ready', 'running')
       AND k.arguments ->> 'source_0' = CAST(:like AS text)
     ORDER BY k.created_at LIMIT 1
    """
)

FOUND = sa.text(
    """
    INSERT INTO memforest.forest (tenant_id, forest_id, owner, time_zone, display_name, rules, state)
    SELECT :t, :id, :owner, f.time_zone, f.display_name, f.rules - 'held', 'hidden' FROM memforest.forest f
     WHERE f.tenant_id = :t AND f.forest_id = :like
    """
)

FORESTS = sa.text(
    """
    SELECT f.forest_id, f.owner, f.state, f.rules - 'held' AS rules,
           (SELECT count(*) FROM memforest.fact x WHERE x.tenant_id = :t AND x.forest_id = f.forest_id) AS facts
      FROM memforest.forest f
     WHERE f.tenant_id = :t AND f.forest_id = ANY(CAST(:ids AS uuid[])) ORDER BY f.forest_id
    """
)

# Windows are claimed from their first cell on: in this order nobody holds one half while we wait with the other.
HOLD_CELLS = sa.text(
    """
    SELECT 1 FROM memforest.cell
     WHERE tenant_id = :t AND forest_id = :f AND (state <> 'done' OR again_at IS NOT NULL)
     ORDER BY session_id, ordinal FOR NO KEY UPDATE
    """
)

ADD_SESSIONS = sa.text(
    f"""
    INSERT INTO memforest.session (tenant_id, session_id, forest_id, external_id, time_zone, started_at, turn_count,
           cell_count, lane, metadata, trace, created_at, updated_at, origin_owner)
    SELECT :t, u.new, :target, u.name, s.time_zone, s.started_at, s.turn_count, s.cell_count, s.lane, s.metadata,
           s.trace, s.created_at, s.updated_at, coalesce(s.origin_owner, :owner)
      FROM unnest({_ids("old", "new")}, CAST(:names AS text[])) AS u(old, new, name)
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = u.old
     ORDER BY u.new
    ON CONFLICT DO NOTHING RETURNING session_id
    """
)

LOCK_SESSIONS = sa.text(
    """
    SELECT session_id, turn_count, cell_count FROM memforest.session
     WHERE tenant_id = :t AND session_id = ANY(CAST(:ids AS uuid[])) ORDER BY session_id FOR NO KEY UPDATE
    """
)

# As ``Turn.same_as``. What was erased on one side can't be compared: its place and id are enough. A turn without an id
# of the caller's may have been stored by an older version, whose generated ids began otherwise.
DIFFER = sa.text(
    f"""
    SELECT u.old FROM unnest({_ids("old", "new")}) AS u(old, new)
     WHERE EXISTS (
        SELECT 1 FROM memforest.turn a
          JOIN memforest.turn b ON b.tenant_id = :t AND b.session_id = u.new AND b.ordinal = a.ordinal
         WHERE a.tenant_id = :t AND a.session_id = u.old
           AND ((a.external_id <> b.external_id AND NOT (a.external_id IN ('turn-' || a.ordinal, 'turn@' || a.ordinal)
                                                     AND b.external_id IN ('turn-' || a.ordinal, 'turn@' || a.ordinal)))
                OR (NOT a.erased AND NOT b.erased AND (
                (a.role, a.content, a.speaker_id, a.name) IS DISTINCT FROM (b.role, b.content, b.speaker_id, b.name)
                OR (a.dated AND b.dated AND a.occurred_at <> b.occurred_at)))))
    """
)

ADD_TURNS = sa.text(
    f"""
    INSERT INTO memforest.turn (tenant_id, session_id, ordinal, external_id, role, content, occurred_at, dated,
           speaker_id, name, metadata, erased)
    SELECT :t, u.new, r.ordinal, r.external_id, r.role, r.content, r.occurred_at, r.dated, r.speaker_id, r.name,
           r.metadata, r.erased
      FROM unnest({_ids("old", "new")}, CAST(:firsts AS int[])) AS u(old, new, first)
      JOIN memforest.turn r ON r.tenant_id = :t AND r.session_id = u.old AND r.ordinal >= u.first
    """
)

LENGTHEN = [
    sa.text(statement)
    for statement in (
        f"""
        UPDATE memforest.session s
           SET turn_count = o.turn_count, cell_count = s.cell_count + u.cells, updated_at = clock_timestamp()
          FROM unnest({_ids("old", "new")}, CAST(:cells AS int[])) AS u(old, new, cells)
          JOIN memforest.session o ON o.tenant_id = :t AND o.session_id = u.old
         WHERE s.tenant_id = :t AND s.session_id = u.new
        """,
        """
        UPDATE memforest.cell SET state = 'ready', available_at = clock_timestamp()
         WHERE tenant_id = :t AND session_id = ANY(CAST(:new AS uuid[])) AND state = 'held'
        """,
    )
]

ADD_SPEAKERS = sa.text(
    """
    INSERT INTO memforest.speaker (tenant_id, forest_id, speaker_id, name)
    SELECT tenant_id, :target, speaker_id, name FROM memforest.speaker WHERE tenant_id = :t AND forest_id = :source
     ORDER BY speaker_id, name
    ON CONFLICT DO NOTHING
    """
)

# An owner without a name takes that of the first source that has one.
TAKE_NAME = sa.text(
    """
    UPDATE memforest.forest f SET display_name = s.display_name FROM memforest.forest s
     WHERE f.tenant_id = :t AND f.forest_id = :target AND f.display_name IS NULL
       AND s.tenant_id = :t AND s.forest_id = :source AND s.display_name IS NOT NULL
    """
)

_CELL = f"""
    SELECT c.cell_id, c.session_id, c.ordinal, c.window_ordinal, c.first_turn, c.last_turn,
           coalesce(c.char_start, 0) AS char_start, {micros("c.time_start")} AS "start",
           {micros("c.time_end")} AS "end", c.state = 'done' AND c.placed AS settled,
           (SELECT coalesce(max(k.item), -1) + 1 FROM memforest.candidate k WHERE k.tenant_id = :t
               AND k.cell_id = c.cell_id AND k.item BETWEEN 0 AND {CORRECTED_ITEM} - 1) AS next_item,
           (SELECT coalesce(max(k.item) + 1, {CORRECTED_ITEM}) FROM memforest.candidate k WHERE k.tenant_id = :t
               AND k.cell_id = c.cell_id AND k.item >= {CORRECTED_ITEM}) AS next_correction
      FROM memforest.cell c"""

CELLS = sa.text(f"{_CELL} WHERE c.tenant_id = :t AND c.forest_id = :f ORDER BY c.session_id, c.ordinal")

# Locked, so that none is extracted again while candidates are attached to it.
CELLS_OF = sa.text(
    f"""{_CELL} WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:ids AS uuid[]))
     ORDER BY c.session_id, c.ordinal FOR NO KEY UPDATE OF c"""
)

ADD_CELLS = sa.text(
    f"""
    INSERT INTO memforest.cell (tenant_id, cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn,
           last_turn, char_start, char_end, text, text_hash, time_start, time_end, state, lane, attempts, available_at,
           error_code, error_text, placed, outcome, summary, created_at, extracted_at, placed_at, again_at, agains)
    SELECT :t, u.new, :target, u.session, u.ordinal, u.head, u.first, c.last_turn, c.char_start, c.char_end, c.text,
           c.text_hash, c.time_start, c.time_end, CASE c.state WHEN 'running' THEN 'ready' ELSE c.state END, c.lane,
           c.attempts, c.available_at, c.error_code, c.error_text, c.placed, c.outcome, c.summary, c.created_at,
           c.extracted_at, c.placed_at, c.again_at, c.agains
      FROM unnest({_ids("old", "new", "sessions")}, CAST(:ordinals AS int[]), CAST(:heads AS int[]),
                  CAST(:firsts AS int[])) AS u(old, new, session, ordinal, head, first)
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = u.old
    """
)

CUT_TURNS = sa.text(
    f"""
    SELECT u.cell, r.name, r.content, {micros("r.occurred_at")} AS at
      FROM unnest({_ids("cells", "sessions")}, CAST(:firsts AS int[]), CAST(:lasts AS int[]))
           AS u(cell, session, first, last)
      JOIN memforest.turn r ON r.tenant_id = :t AND r.session_id = u.session AND r.ordinal BETWEEN u.first AND u.last
     ORDER BY u.cell, r.ordinal
    """
)

SET_TEXTS = sa.text(
    """
    UPDATE memforest.cell c
       SET text = u.text, text_hash = u.hash, time_start = timestamptz 'epoch' + u.first * interval '1 microsecond',
           time_end = timestamptz 'epoch' + u.last * interval '1 microsecond'
      FROM unnest(CAST(:cells AS uuid[]), CAST(:texts AS text[]), CAST(:hashes AS bytea[]), CAST(:starts AS bigint[]),
                  CAST(:ends AS bigint[])) AS u(cell, text, hash, first, last)
     WHERE c.tenant_id = :t AND c.cell_id = u.cell
    """
)

ITEMS = sa.text(
    f"""
    SELECT k.cell_id, k.item, k.turn_ordinals, o.fact_id,
           CASE WHEN o.fact_id IS NULL AND k.item >= {CORRECTED_ITEM} THEN k.statement END AS pending
      FROM memforest.cell c
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
      LEFT JOIN memforest.occurrence o ON o.tenant_id = :t AND o.cell_id = k.cell_id AND o.item = k.item
     WHERE c.tenant_id = :t AND c.forest_id = :f ORDER BY c.session_id, c.ordinal, k.item
    """
)

# What is being copied has no statistics yet: by "LIMIT" the planner can only probe the index for each.
ADD_ITEMS = [
    sa.text(statement)
    for statement in (
        f"""
        INSERT INTO memforest.candidate (tenant_id, cell_id, item, turn_ordinals, quote, statement, text_hash,
               routing_hash)
        SELECT :t, u.new, u.number, k.turn_ordinals, k.quote, k.statement, k.text_hash, k.routing_hash
          FROM unnest({_ids("old", "new")}, CAST(:items AS smallint[]), CAST(:numbers AS smallint[]))
               AS u(old, new, item, number)
         CROSS JOIN LATERAL (SELECT * FROM memforest.candidate c
                              WHERE c.tenant_id = :t AND c.cell_id = u.old AND c.item = u.item LIMIT 1) k
        """,
        f"""
        INSERT INTO memforest.occurrence (tenant_id, cell_id, item, fact_id, session_id, turn_ordinals)
        SELECT :t, u.new, u.number, u.fact, u.session, k.turn_ordinals
          FROM unnest({_ids("old", "new", "facts", "sessions")}, CAST(:items AS smallint[]),
                      CAST(:numbers AS smallint[])) AS u(old, new, fact, session, item, number)
         CROSS JOIN LATERAL (SELECT * FROM memforest.candidate c
                              WHERE c.tenant_id = :t AND c.cell_id = u.old AND c.item = u.item LIMIT 1) k
         WHERE u.fact IS NOT NULL
        """,
    )
]

_FACT = f"""
    SELECT f.fact_id, f.statement, f.text_hash, f.key_time, f.key_ordinal, f.key_item,
           {micros("coalesce(f.time_start, f.mentioned_at)")} AS "start",
           {micros("coalesce(f.time_end, f.time_start, f.mentioned_at)")} AS "end",
           f.pinned, f.superseded_by, f.superseded_at IS NOT NULL AS superseded
      FROM memforest.fact f"""

FACTS = sa.text(f"{_FACT} WHERE f.tenant_id = :t AND f.forest_id = :f ORDER BY f.seq")
FACTS_OF = sa.text(f"{_FACT} WHERE f.tenant_id = :t AND f.fact_id = ANY(CAST(:ids AS uuid[]))")

COPY_FACTS = sa.text(
    f"""
    INSERT INTO memforest.fact (tenant_id, fact_id, forest_id, text, normalized, text_hash, time_start, time_end,
           mentioned_at, subject_key, attribute, statement, key_time, key_ordinal, key_item, created_at, pinned,
           superseded_by, superseded_at)
    SELECT :t, u.new, :target, f.text, f.normalized, f.text_hash, f.time_start, f.time_end, f.mentioned_at,
           f.subject_key, f.attribute, f.statement, f.key_time, f.key_ordinal, f.key_item, f.created_at, f.pinned,
           u.by, f.superseded_at
      FROM unnest({_ids("old", "new", "by")}) AS u(old, new, by)
      JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = u.old
     ORDER BY f.seq
    """
)

TAKE_CORRECTIONS = sa.text(
    f"""
    UPDATE memforest.fact g SET superseded_by = u.by, superseded_at = f.superseded_at
      FROM unnest({_ids("old", "new", "by")}) AS u(old, new, by)
      JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = u.old
      JOIN memforest.fact n ON n.tenant_id = :t AND n.fact_id = u.by AND n.superseded_at IS NULL
     WHERE g.tenant_id = :t AND g.fact_id = u.new AND g.superseded_at IS NULL AND u.by <> u.new
       AND NOT EXISTS (
           SELECT 1 FROM memforest.occurrence o
             JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item
            WHERE o.tenant_id = :t AND o.fact_id = g.fact_id
              AND CAST(k.statement ->> 'mentioned_at' AS timestamptz) >= f.superseded_at)
    RETURNING g.fact_id
    """
)

PIN = sa.text("UPDATE memforest.fact SET pinned = true WHERE tenant_id = :t AND fact_id = ANY(CAST(:ids AS uuid[]))")

# An undated state holds until the next one of its chain. What is denied, planned or heard of contradicts nothing.
VALUE_CONFLICTS = sa.text(
    f"""
    WITH held AS (
        SELECT f.forest_id, f.fact_id, f.subject_key, f.attribute, f.text, f.statement ->> 'value' AS value,
               {micros("coalesce(f.time_start, f.mentioned_at)")} AS since,
               CASE WHEN f.time_start IS NOT NULL THEN {micros("f.time_end")}
                    ELSE lead({micros("coalesce(f.time_start, f.mentioned_at)")}) OVER (
                         PARTITION BY f.forest_id, f.subject_key, f.attribute
                             ORDER BY coalesce(f.time_start, f.mentioned_at)) END AS until
          FROM memforest.fact f
         WHERE f.tenant_id = :t AND f.forest_id = ANY(CAST(:both AS uuid[])) AND f.attribute <> ''
           AND f.superseded_at IS NULL AND f.statement ->> 'polarity' = 'positive'
           AND f.statement ->> 'modality' = 'asserted' AND f.statement ->> 'value' <> '')
    SELECT count(*) OVER () AS conflicts, a.subject_key, a.attribute, a.fact_id, a.text, a.value,
           b.fact_id AS other_id, b.text AS other_text, b.value AS other_value, greatest(a.since, b.since) AS since
      FROM held a JOIN held b ON b.subject_key = a.subject_key AND b.attribute = a.attribute
     WHERE a.forest_id = :source AND b.forest_id = :target AND lower(a.value) <> lower(b.value)
       AND (a.until IS NULL OR a.until > b.since) AND (b.until IS NULL OR b.until > a.since)
     ORDER BY since, a.fact_id, b.fact_id LIMIT :n
    """
)

# What was cut or left behind brings no vector. What has just been copied has no statistics: each hash is looked up.
COPY_VECTORS = sa.text(
    """
    INSERT INTO memforest.vector (tenant_id, forest_id, model, text_hash, vector)
    SELECT :t, :target, v.model, v.text_hash, v.vector FROM memforest.vector v
     WHERE v.tenant_id = :t AND v.forest_id = :source AND coalesce(
           (SELECT 1 FROM memforest.cell c
             WHERE c.tenant_id = :t AND c.forest_id = :target AND c.text_hash = v.text_hash LIMIT 1),
           (SELECT 1 FROM memforest.fact f
             WHERE f.tenant_id = :t AND f.forest_id = :target AND f.text_hash = v.text_hash LIMIT 1),
           (SELECT 1 FROM memforest.candidate k JOIN memforest.cell c
                ON c.tenant_id = :t AND c.cell_id = k.cell_id AND c.forest_id = :target
             WHERE k.tenant_id = :t AND k.text_hash = v.text_hash LIMIT 1),
           (SELECT 1 FROM memforest.candidate k JOIN memforest.cell c
                ON c.tenant_id = :t AND c.cell_id = k.cell_id AND c.forest_id = :target
             WHERE k.tenant_id = :t AND k.routing_hash = v.text_hash LIMIT 1)) IS NOT NULL
     ORDER BY v.model, v.text_hash
    ON CONFLICT DO NOTHING
    """
)

COPY_VISITS = sa.text(
    f"""
    INSERT INTO memforest.visit AS mine (tenant_id, item_id, forest_id, visits, last_visit_at)
    SELECT :t, u.new, :target, sum(v.visits), max(v.last_visit_at)
      FROM memforest.visit v JOIN unnest({_ids("old", "new")}) AS u(old, new) ON u.old = v.item_id
     WHERE v.tenant_id = :t AND v.forest_id = :source
     GROUP BY u.new ORDER BY u.new
    ON CONFLICT (tenant_id, item_id) DO UPDATE
    SET visits = mine.visits + excluded.visits, last_visit_at = greatest(mine.last_visit_at, excluded.last_visit_at)
    """
)

VECTORS = sa.text(
    """
    SELECT f.seq, f.fact_id, v.vector FROM memforest.fact f
      LEFT JOIN LATERAL (SELECT x.vector FROM memforest.vector x
                          WHERE x.tenant_id = :t AND x.forest_id = :f AND x.model = :m
                            AND x.text_hash = f.text_hash LIMIT 1) v ON true
     WHERE f.tenant_id = :t AND f.forest_id = :f AND f.superseded_at IS NULL AND f.seq > :after
     ORDER BY f.seq LIMIT :n
    """
)
