"""The statements of recall: ids in, rows out, each in one order.

Where there are many rows an id comes back as its place in the given ids (``at``, from 1), or as text by which the id
that was made before is found: making a UUID in Python takes as long as the rest of a row.
"""

import sqlalchemy as sa

from memforest_core.domain.facts import CORRECTED_ITEM
from memforest_core.recall.records import FEW_BYTES
from memforest_core.store.packs import PACKED, QUESTION

# Without a moment to look back from, everything is known.
_UNTIL = "CAST(:until AS timestamptz)"
_KNOWN_WRONG = "({0}.superseded_at IS NOT NULL AND (" + _UNTIL + " IS NULL OR {0}.superseded_at <= " + _UNTIL + "))"

# A correction lies in the cells of what it corrects, and is known since that was superseded. Without that (it was
# deleted), there is nothing else to tell.
KNOWN_BY_THEN = f"""(o.item < {CORRECTED_ITEM} OR {_UNTIL} IS NULL OR {_UNTIL} >= coalesce((
           SELECT min(w.superseded_at) FROM memforest.occurrence p
            CROSS JOIN LATERAL (SELECT superseded_at, superseded_by FROM memforest.fact
                                 WHERE tenant_id = :t AND fact_id = p.fact_id LIMIT 1) w
            WHERE p.tenant_id = :t AND p.cell_id = o.cell_id AND w.superseded_by = o.fact_id), '-infinity'))"""  # noqa: S608 - constants of this package

# As store/owners.py finds them.
FOREST = sa.text("""
    SELECT forest_id, time_zone, state, display_name FROM memforest.forest
     WHERE tenant_id = :t AND owner = :owner AND state IN ('live', 'frozen')
    """)

SPEAKERS = sa.text("""
    SELECT speaker_id, name FROM memforest.speaker
     WHERE tenant_id = :t AND forest_id = :f ORDER BY since DESC NULLS LAST, speaker_id, name
    """)

TOKENS = sa.text("""
    SELECT c.cell_id::text, c.first_turn, v.tokens
      FROM memforest.cell c CROSS JOIN LATERAL (
        SELECT tokens FROM memforest.vector
         WHERE tenant_id = :t AND forest_id = :f AND model = :m AND text_hash = c.text_hash LIMIT 1) v
     WHERE c.tenant_id = :t AND c.cell_id = ANY(CAST(:ids AS uuid[])) AND c.forest_id = :f AND v.tokens IS NOT NULL
    """)

# A fact that was said a thousand times is met where it was said last. When its cells were said matters only then, and
# for a caller with a timestamp of the past.
CELLS_OF_FACTS = sa.text(f"""
    SELECT fact_id::text, cell_id::text FROM (
        SELECT o.fact_id, o.cell_id,
               row_number() OVER (PARTITION BY o.fact_id ORDER BY c.time_start DESC, o.cell_id) AS place
          FROM (SELECT fact_id, cell_id, item, count(*) OVER (PARTITION BY fact_id) AS times FROM memforest.occurrence
                 WHERE tenant_id = :t AND fact_id = ANY(CAST(:ids AS uuid[]))) o
          LEFT JOIN LATERAL (
            SELECT time_start FROM memforest.cell
             WHERE tenant_id = :t AND cell_id = o.cell_id AND (o.times > :n OR {_UNTIL} IS NOT NULL) LIMIT 1) c ON true
         WHERE ({_UNTIL} IS NULL OR c.time_start <= {_UNTIL}) AND {KNOWN_BY_THEN}) said
     WHERE place <= :n
    """)  # noqa: S608 - constants of this package

# Few facts are wrong: an index of those alone answers for the others.
LINKS_OF_CELLS = sa.text(f"""
    SELECT o.fact_id::text, o.cell_id::text, o.session_id::text, o.turn_ordinals,
           o.item >= {CORRECTED_ITEM} AS corrected, f.superseded_by
      FROM memforest.occurrence o LEFT JOIN LATERAL (
        SELECT superseded_by FROM memforest.fact
         WHERE tenant_id = :t AND fact_id = o.fact_id AND {_KNOWN_WRONG.format("fact")} LIMIT 1) f ON true
     WHERE o.tenant_id = :t AND o.cell_id = ANY(CAST(:ids AS uuid[])) AND {KNOWN_BY_THEN}
     ORDER BY o.cell_id, o.item
    """)  # noqa: S608 - constants of this package

FACT_HEADS = sa.text("""
    SELECT fact_id, (statement ->> 'verbatim')::boolean AS pointer, time_start, time_end FROM memforest.fact
     WHERE tenant_id = :t AND fact_id = ANY(CAST(:ids AS uuid[]))
    """)

FACTS = sa.text(f"""
    SELECT fact_id, statement, pinned, CASE WHEN {_KNOWN_WRONG.format("fact")} THEN superseded_by END AS superseded_by
      FROM memforest.fact
     WHERE tenant_id = :t AND fact_id = ANY(CAST(:ids AS uuid[])) AND forest_id = :f
    """)  # noqa: S608 - constants of this package

ROOTS_ABOVE = sa.text("""
    SELECT n.payload_id::text, r.root_id::text
      FROM memforest.node n CROSS JOIN LATERAL (
        SELECT root_id, kind FROM memforest.tree WHERE tenant_id = :t AND tree_id = n.tree_id LIMIT 1) r
     WHERE n.tenant_id = :t AND n.payload_id = ANY(CAST(:ids AS uuid[])) AND n.parent_id IS NOT NULL
       AND r.kind = ANY(CAST(:kinds AS text[])) ORDER BY n.payload_id, n.tree_id
    """)

# LIMIT 1 makes each step an index probe: the planner takes a recursion for a hundred times larger than a path is, and
# would read whole tables to join it.
PATHS = sa.text("""
    WITH RECURSIVE path AS (
        SELECT node_id, tree_id, parent_id, level, payload_id, time_start, time_end, version > clean_version AS stale
          FROM memforest.node
         WHERE tenant_id = :t AND payload_id = ANY(CAST(:ids AS uuid[]))
        UNION
        SELECT n.* FROM path CROSS JOIN LATERAL (
            SELECT node_id, tree_id, parent_id, level, payload_id, time_start, time_end, version > clean_version
              FROM memforest.node WHERE tenant_id = :t AND node_id = path.parent_id LIMIT 1) n)
    SELECT path.*, r.kind, r.label, s.text
      FROM (SELECT tree_id, kind, label FROM memforest.tree
             WHERE tenant_id = :t AND tree_id = ANY(ARRAY(SELECT DISTINCT tree_id FROM path))) r
      JOIN path ON path.tree_id = r.tree_id
      LEFT JOIN LATERAL (
        SELECT left(text, :chars) AS text FROM memforest.node_summary
         WHERE tenant_id = :t AND node_id = path.node_id LIMIT 1) s ON path.level > 0
     ORDER BY r.kind, path.tree_id, path.level, path.node_id
    """)

_ROOT = """
    SELECT n.node_id, n.tree_id, r.kind, r.label, n.time_start, n.time_end, s.text"""
_ITS_SUMMARY = """
      LEFT JOIN LATERAL (
        SELECT left(text, :chars) AS text FROM memforest.node_summary
         WHERE tenant_id = :t AND node_id = n.node_id LIMIT 1) s ON true"""

TREE_ROOTS = sa.text(f"""{_ROOT}
      FROM memforest.node n CROSS JOIN LATERAL (
        SELECT kind, label FROM memforest.tree WHERE tenant_id = :t AND tree_id = n.tree_id LIMIT 1) r
      {_ITS_SUMMARY}
     WHERE n.tenant_id = :t AND n.node_id = ANY(CAST(:ids AS uuid[]))
    """)  # noqa: S608 - constants of this module

ENTITY_ROOTS = sa.text(f"""{_ROOT}
      FROM memforest.tree r CROSS JOIN LATERAL (
        SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = r.root_id LIMIT 1) n
      {_ITS_SUMMARY}
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.kind = 'entity' AND r.scope_key = ANY(CAST(:keys AS text[]))
     ORDER BY r.scope_key
    """)  # noqa: S608 - constants of this module

# OFFSET 0 makes each lookup of children an index probe.
CHILDREN = sa.text("""
    SELECT n.node_id, n.tree_id, n.parent_id, n.payload_id, n.time_start, n.time_end,
           left(coalesce(s.text, c.text, f.text, ''), :chars) AS text
      FROM unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS w(id, at)
     CROSS JOIN LATERAL (SELECT * FROM memforest.node WHERE tenant_id = :t AND parent_id = w.id OFFSET 0) n
      LEFT JOIN LATERAL (
        SELECT text FROM memforest.node_summary WHERE tenant_id = :t AND node_id = n.node_id LIMIT 1) s ON true
      LEFT JOIN LATERAL (
        SELECT text FROM memforest.cell WHERE tenant_id = :t AND cell_id = n.payload_id LIMIT 1) c ON true
      LEFT JOIN LATERAL (
        SELECT text FROM memforest.fact WHERE tenant_id = :t AND fact_id = n.payload_id LIMIT 1) f ON true
     ORDER BY w.at, n.key_time, n.key_ordinal, n.key_item, n.key_id
    """)

# The turns that are wanted by session and ordinal, as t.
WANTED_TURNS = """
      FROM unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[])) WITH ORDINALITY AS w(session_id, ordinal, at)
     CROSS JOIN LATERAL (
        SELECT * FROM memforest.turn
         WHERE tenant_id = :t AND session_id = w.session_id AND ordinal = w.ordinal LIMIT 1) t"""

TURNS = sa.text(f"""
    SELECT w.at, t.external_id, s.external_id AS session_external_id, t.speaker_id, t.name,
           t.occurred_at, t.dated, t.role, s.origin_owner, s.channel
      {WANTED_TURNS}
     CROSS JOIN LATERAL (
        SELECT external_id, origin_owner, channel FROM memforest.session
         WHERE tenant_id = :t AND session_id = w.session_id LIMIT 1) s
    """)  # noqa: S608 - constants of this package

# Each cell as often as it has turns, with the root of its session's tree. A question may end with more than its mark:
# closing quotes, a smiley.
CELLS = sa.text(f"""
    SELECT c.cell_id::text, c.session_id::text, c.first_turn, c.last_turn, c.char_start, c.char_end, c.placed,
           r.root_id::text, t.ordinal, t.external_id, s.external_id AS session_external_id, t.speaker_id, t.name,
           t.occurred_at, t.dated, t.role, s.origin_owner, s.channel,
           coalesce(t.is_question, right(t.content, 8) ~ '{QUESTION}') AS is_question,
           NOT t.erased AND octet_length(t.content) <= {FEW_BYTES} AS short
      FROM memforest.cell c
     CROSS JOIN LATERAL (
        SELECT external_id, origin_owner, channel FROM memforest.session
         WHERE tenant_id = :t AND session_id = c.session_id LIMIT 1) s
      LEFT JOIN LATERAL (
        SELECT root_id FROM memforest.tree WHERE tenant_id = :t AND forest_id = :f AND kind = 'session'
           AND scope_key = c.session_id::text LIMIT 1) r ON true
      LEFT JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
       AND t.ordinal BETWEEN c.first_turn AND c.last_turn
     WHERE c.tenant_id = :t AND c.forest_id = :f AND c.cell_id = ANY(CAST(:ids AS uuid[]) || ARRAY(
        SELECT n.cell_id FROM memforest.cell p CROSS JOIN LATERAL (
            SELECT cell_id FROM memforest.cell WHERE tenant_id = :t AND session_id = p.session_id
               AND ordinal > p.ordinal AND ordinal <= p.ordinal + :behind ORDER BY ordinal LIMIT :behind) n
         WHERE p.tenant_id = :t AND p.cell_id = ANY(CAST(:topics AS uuid[]))))
    """)  # noqa: S608 - constants of this package

METADATA = sa.text(f"""
    SELECT t.session_id, t.ordinal, t.metadata, s.metadata AS of_session
      {WANTED_TURNS}
     CROSS JOIN LATERAL (
        SELECT metadata FROM memforest.session WHERE tenant_id = :t AND session_id = w.session_id LIMIT 1) s
     WHERE NOT t.erased
    """)  # noqa: S608 - constants of this package

LAST_SAID = sa.text("SELECT max(time_end) FROM memforest.cell WHERE tenant_id = :t AND forest_id = :f")

SESSIONS = sa.text("""
    SELECT session_id FROM memforest.session
     WHERE tenant_id = :t AND forest_id = :f AND external_id = ANY(CAST(:names AS text[]))
    """)

SESSIONS_IN_CHANNELS = sa.text("""
    SELECT session_id FROM memforest.session
     WHERE tenant_id = :t AND forest_id = :f AND channel = ANY(CAST(:channels AS text[]))
       AND (CAST(:names AS text[]) IS NULL OR external_id = ANY(CAST(:names AS text[])))
     ORDER BY started_at DESC, session_id LIMIT :n
    """)

TURN_TEXTS = sa.text(f"SELECT t.session_id, t.ordinal, t.content, {PACKED} {WANTED_TURNS} WHERE NOT t.erased")

AROUND = sa.text("""
    SELECT w.id AS leaf, n.payload_id, n.side
      FROM unnest(CAST(:ids AS uuid[])) AS w(id)
     CROSS JOIN LATERAL (SELECT * FROM memforest.node WHERE tenant_id = :t AND node_id = w.id LIMIT 1) l
     CROSS JOIN LATERAL (
        (SELECT payload_id, -1 AS side, key_time, key_ordinal, key_item, key_id FROM memforest.node
          WHERE tenant_id = :t AND tree_id = l.tree_id AND level = 0
            AND (key_time, key_ordinal, key_item, key_id) < (l.key_time, l.key_ordinal, l.key_item, l.key_id)
          ORDER BY key_time DESC, key_ordinal DESC, key_item DESC, key_id DESC LIMIT :n)
        UNION ALL
        (SELECT payload_id, 1, key_time, key_ordinal, key_item, key_id FROM memforest.node
          WHERE tenant_id = :t AND tree_id = l.tree_id AND level = 0
            AND (key_time, key_ordinal, key_item, key_id) > (l.key_time, l.key_ordinal, l.key_item, l.key_id)
          ORDER BY key_time, key_ordinal, key_item, key_id LIMIT :n)) n
     ORDER BY w.id, n.key_time, n.key_ordinal, n.key_item, n.key_id
    """)

# The parser of full text doesn't cut Chinese, Japanese or Thai: parts of the question are looked for in the texts.
_HELD = """CROSS JOIN LATERAL (
        SELECT count(*) AS parts FROM unnest(CAST(:signs AS text[])) sign WHERE strpos(x.text, sign) > 0) held"""
_MATCHES = "to_tsvector('english', x.text) @@ to_tsquery('english', :q)"
_BEST_FIRST = "ORDER BY held.parts DESC, ts_rank(to_tsvector('english', x.text), to_tsquery('english', :q)) DESC"

TEXT_OF_CELLS = sa.text(f"""
    SELECT x.cell_id AS id, x.text FROM memforest.cell x {_HELD}
     WHERE x.tenant_id = :t AND x.forest_id = :f AND (held.parts > 0 OR {_MATCHES}) {_BEST_FIRST}, x.cell_id LIMIT :n
    """)  # noqa: S608 - constants of this module

TEXT_OF_FACTS = sa.text(f"""
    SELECT x.fact_id AS id, x.text FROM memforest.fact x {_HELD}
     WHERE x.tenant_id = :t AND x.forest_id = :f AND NOT {_KNOWN_WRONG.format("x")}
       AND (held.parts > 0 OR {_MATCHES}) {_BEST_FIRST}, x.fact_id LIMIT :n
    """)  # noqa: S608 - constants of this module

# What is out of the index because its topics are cold. Nothing is cold for most owners: the partial index is empty. Row
# security excludes full text from its index, so that each cold text is read: first for the beginnings of the words,
# which takes a hundredth of the time that parsing it does.
TEXT_OF_COLD = sa.text(f"""
    (SELECT i.kind, x.cell_id AS id, x.text FROM memforest.index_row i
       JOIN memforest.cell x ON x.tenant_id = :t AND x.cell_id = i.point_id AND x.forest_id = :f {_HELD}
      WHERE i.tenant_id = :t AND i.forest_id = :f AND i.kind = 'cell' AND i.cold
        AND (held.parts > 0 OR (x.text ~* :near AND {_MATCHES})) {_BEST_FIRST}, x.cell_id LIMIT :n)
     UNION ALL
    (SELECT i.kind, x.fact_id, x.text FROM memforest.index_row i
       JOIN memforest.fact x ON x.tenant_id = :t AND x.fact_id = i.point_id AND x.forest_id = :f {_HELD}
      WHERE i.tenant_id = :t AND i.forest_id = :f AND i.kind = 'fact' AND i.cold AND NOT {_KNOWN_WRONG.format("x")}
        AND (held.parts > 0 OR (x.text ~* :near AND {_MATCHES})) {_BEST_FIRST}, x.fact_id LIMIT :n)
    """)  # noqa: S608 - constants of this module

# Which topics are cold, and since when: another sum means others. Topics are read only where a point is missing.
COLD_TOPICS = sa.text("""
    SELECT CASE WHEN EXISTS (SELECT 1 FROM memforest.index_row i
                              WHERE i.tenant_id = :t AND i.forest_id = f.forest_id AND i.cold) THEN (
        SELECT coalesce(sum(hashtextextended(r.tree_id::text || r.cold_at::text, 0)), 0)::text FROM memforest.tree r
         WHERE r.tenant_id = :t AND r.forest_id = f.forest_id AND r.kind = 'scene' AND r.cold_at IS NOT NULL) END
      FROM memforest.forest f WHERE f.tenant_id = :t AND f.owner = :owner AND f.state IN ('live', 'frozen')
    """)

# After a restart of Postgres the index may have more than the rows, which recall drops by itself; it has less only
# when it was itself lost or restored, or when a new version of the program has begun a new collection.
INDEX_UNSURE = sa.text("""
    SELECT EXISTS (SELECT 1 FROM memforest.maintenance
                    WHERE tenant_id = :t AND kind = 'index_parity' AND state IN ('held', 'ready', 'running')
                      AND arguments ->> 'found' IN ('index_changed', 'unmarked'))
    """)

# The index of such rows is nearly empty when nothing is behind.
NOT_INDEXED = sa.text("""
    SELECT c.cell_id AS id, c.text
      FROM memforest.forest f CROSS JOIN LATERAL (
        SELECT point_id FROM memforest.index_row
         WHERE tenant_id = :t AND forest_id = f.forest_id AND kind = 'cell' AND indexed_version = 0
           AND state IN ('ready', 'running')) i
      JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = i.point_id AND c.forest_id = f.forest_id
     WHERE f.tenant_id = :t AND f.owner = :owner AND f.state IN ('live', 'frozen')
     ORDER BY c.time_start DESC, c.cell_id LIMIT :n
    """)

TEXTS = sa.text("""
    SELECT cell_id AS id, left(text, :chars) AS text FROM memforest.cell
     WHERE tenant_id = :t AND cell_id = ANY(CAST(:ids AS uuid[]))
     UNION ALL
    SELECT fact_id, left(text, :chars) FROM memforest.fact
     WHERE tenant_id = :t AND fact_id = ANY(CAST(:ids AS uuid[]))
    """)

LAST_TURNS = sa.text(f"""
    SELECT t.name, t.content, {PACKED}, t.occurred_at
      FROM unnest(CAST(:ids AS uuid[])) AS w(id)
     CROSS JOIN LATERAL (
        SELECT * FROM memforest.turn
         WHERE tenant_id = :t AND session_id = w.id AND NOT erased ORDER BY ordinal DESC LIMIT :n) t
     ORDER BY t.ordinal
    """)  # noqa: S608 - constants of this package
