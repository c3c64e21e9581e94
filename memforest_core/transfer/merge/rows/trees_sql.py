"""The statements of a merge that are about scopes and trees."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.store.trees import micros

_SCOPE = f"""
    SELECT r.tree_id, r.kind, r.scope_key, r.state, r.k, r.root_id, r.height, r.leaf_count, r.domain, r.centroid,
           {micros("r.time_start")} AS "start", {micros("r.time_end")} AS "end"
      FROM memforest.tree r"""

SCOPES = sa.text(
    f"{_SCOPE} WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate') ORDER BY r.tree_id"
)
SCOPES_OF = sa.text(f"{_SCOPE} WHERE r.tenant_id = :t AND r.tree_id = ANY(CAST(:ids AS uuid[]))")

TAKE_SCENES = sa.text(
    """
    UPDATE memforest.forest SET scene_seq = scene_seq + :n WHERE tenant_id = :t AND forest_id = :f
    RETURNING scene_seq - :n + 1
    """
)

NODES = sa.text(
    """
    SELECT n.node_id, n.tree_id, n.parent_id, n.level, n.key_time, n.key_ordinal, n.key_item, n.key_id, n.time_start,
           n.time_end, n.leaf_count, n.version, n.clean_version, n.payload_id
      FROM memforest.tree r JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state = 'active'
    """
)

MEMBERS = sa.text(
    """
    SELECT p.tree_id, p.payload_id, p.session_id
      FROM memforest.tree r JOIN memforest.placement p ON p.tenant_id = :t AND p.tree_id = r.tree_id
     WHERE r.tenant_id = :t AND r.forest_id = :f AND r.state IN ('active', 'candidate')
     ORDER BY p.tree_id, p.payload_id
    """
)

_DUE = "CASE WHEN u.dirty THEN now() + make_interval(secs => :quiet) END"

COPY_SCOPES = sa.text(
    f"""
    INSERT INTO memforest.tree (tenant_id, tree_id, forest_id, kind, scope_key, label, state, k, root_id, height,
           leaf_count, session_id, domain, centroid, time_start, time_end, marks, first_mark_at, last_mark_at, due_at,
           created_at)
    SELECT :t, u.new, :target, r.kind, u.key, coalesce(u.label, r.label),
           CASE WHEN u.root IS NULL THEN 'candidate' ELSE 'active' END, r.k, u.root, u.height, u.leaves, u.session,
           r.domain, r.centroid, r.time_start, r.time_end, 1, CASE WHEN u.dirty THEN now() END, r.last_mark_at, {_DUE},
           r.created_at
      FROM unnest(CAST(:old AS uuid[]), CAST(:new AS uuid[]), CAST(:keys AS text[]), CAST(:labels AS text[]),
                  CAST(:sessions AS uuid[]), CAST(:roots AS uuid[]), CAST(:heights AS smallint[]),
                  CAST(:leaves AS int[]), CAST(:dirty AS boolean[]))
           AS u(old, new, key, label, session, root, height, leaves, dirty)
      JOIN memforest.tree r ON r.tenant_id = :t AND r.tree_id = u.old
     ORDER BY u.new
    """
)

COPY_MEMBERS = sa.text(
    """
    INSERT INTO memforest.placement AS mine (tenant_id, tree_id, payload_id, session_id, leaf_id)
    SELECT :t, u.tree, u.payload, u.session, u.leaf
      FROM unnest(CAST(:trees AS uuid[]), CAST(:payloads AS uuid[]), CAST(:sessions AS uuid[]),
                  CAST(:leaves AS uuid[])) AS u(tree, payload, session, leaf)
    ON CONFLICT (tenant_id, tree_id, payload_id) DO UPDATE SET leaf_id = excluded.leaf_id
     WHERE mine.leaf_id IS NULL AND excluded.leaf_id IS NOT NULL
    """
)

LOCK_NODES_OF = sa.text(
    """
    SELECT node_id FROM memforest.node
     WHERE tenant_id = :t AND (tree_id = ANY(CAST(:trees AS uuid[])) OR node_id = ANY(CAST(:nodes AS uuid[])))
     ORDER BY node_id FOR UPDATE
    """
)

CLEAR_TREES = sa.text(
    """
    DELETE FROM memforest.node WHERE tenant_id = :t AND tree_id = ANY(CAST(:trees AS uuid[]))
    RETURNING CASE WHEN level > 0 THEN node_id END
    """
)

ADD_NODES = sa.text(
    """
    INSERT INTO memforest.node (tenant_id, node_id, tree_id, parent_id, level, key_time, key_ordinal, key_item, key_id,
           time_start, time_end, leaf_count, version, clean_version, payload_id)
    SELECT :t, u.*
      FROM unnest(CAST(:node_id AS uuid[]), CAST(:tree_id AS uuid[]), CAST(:parent_id AS uuid[]),
                  CAST(:level AS smallint[]), CAST(:key_time AS bigint[]), CAST(:key_ordinal AS int[]),
                  CAST(:key_item AS int[]), CAST(:key_id AS text[]), CAST(:time_start AS bigint[]),
                  CAST(:time_end AS bigint[]), CAST(:leaf_count AS int[]), CAST(:version AS bigint[]),
                  CAST(:clean_version AS bigint[]), CAST(:payload_id AS uuid[])) AS u
    """
)

COPY_SUMMARIES = sa.text(
    """
    INSERT INTO memforest.node_summary (tenant_id, node_id, text, source, model, input_hash, version, vector,
           vector_model, pooled, terms, redo_at, created_at)
    SELECT :t, u.new, s.text, s.source, s.model, s.input_hash, s.version, s.vector, s.vector_model, s.pooled, s.terms,
           s.redo_at, s.created_at
      FROM unnest(CAST(:old AS uuid[]), CAST(:new AS uuid[])) AS u(old, new)
     CROSS JOIN LATERAL (SELECT * FROM memforest.node_summary x
                          WHERE x.tenant_id = :t AND x.node_id = u.old LIMIT 1) s
     WHERE EXISTS (SELECT 1 FROM memforest.node n WHERE n.tenant_id = :t AND n.node_id = u.new LIMIT 1)
    RETURNING node_id
    """
)

SET_HEADS = sa.text(
    f"""
    UPDATE memforest.tree r
       SET state = 'active', root_id = u.root, height = u.height, leaf_count = u.leaves, k = u.k, marks = r.marks + 1,
           last_mark_at = now(), first_mark_at = CASE WHEN u.dirty THEN coalesce(r.first_mark_at, now()) END,
           due_at = {_DUE}
      FROM unnest(CAST(:trees AS uuid[]), CAST(:roots AS uuid[]), CAST(:heights AS smallint[]), CAST(:leaves AS int[]),
                  CAST(:ks AS smallint[]), CAST(:dirty AS boolean[])) AS u(tree, root, height, leaves, k, dirty)
     WHERE r.tenant_id = :t AND r.tree_id = u.tree
    """
)

SET_SCENES = sa.text(
    """
    UPDATE memforest.tree r
       SET centroid = u.centroid, time_start = timestamptz 'epoch' + u.first * interval '1 microsecond',
           time_end = timestamptz 'epoch' + u.last * interval '1 microsecond'
      FROM unnest(CAST(:trees AS uuid[]), CAST(:centroids AS bytea[]), CAST(:starts AS bigint[]),
                  CAST(:ends AS bigint[])) AS u(tree, centroid, first, last)
     WHERE r.tenant_id = :t AND r.tree_id = u.tree
    """
)
