"""The search after an erasure, as queries: references to ids that were removed, and what a target still names."""

# ruff: noqa: S608 - statements are made of constants of this package

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.erase.rows.sql import ITEMS, TURNS
from memforest_core.store.vectors import UNUSED

LEFT = sa.text(
    f"""
    SELECT 'cell.cell_id', count(*) FROM memforest.cell WHERE tenant_id = :t AND cell_id = ANY(CAST(:cells AS uuid[]))
    UNION ALL SELECT 'fact.fact_id', count(*) FROM memforest.fact
     WHERE tenant_id = :t AND fact_id = ANY(CAST(:facts AS uuid[]))
    UNION ALL SELECT 'candidate.cell_id', count(*) FROM memforest.candidate
     WHERE tenant_id = :t AND cell_id = ANY(CAST(:cells AS uuid[]))
    UNION ALL SELECT 'candidate.item', count(*) FROM {ITEMS.replace(":cells", ":of")}
      JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = u.cell AND k.item = u.item
    UNION ALL SELECT 'occurrence.cell_id', count(*) FROM memforest.occurrence
     WHERE tenant_id = :t AND cell_id = ANY(CAST(:cells AS uuid[]))
    UNION ALL SELECT 'occurrence.fact_id', count(*) FROM memforest.occurrence
     WHERE tenant_id = :t AND fact_id = ANY(CAST(:facts AS uuid[]))
    UNION ALL SELECT 'placement.payload_id', count(*) FROM memforest.placement
     WHERE tenant_id = :t AND payload_id = ANY(CAST(:payloads AS uuid[]))
    UNION ALL SELECT 'node.payload_id', count(*) FROM memforest.node
     WHERE tenant_id = :t AND payload_id = ANY(CAST(:payloads AS uuid[]))
    UNION ALL SELECT 'node.node_id', count(*) FROM memforest.node
     WHERE tenant_id = :t AND node_id = ANY(CAST(:nodes AS uuid[]))
    UNION ALL SELECT 'node_summary.node_id', count(*) FROM memforest.node_summary
     WHERE tenant_id = :t AND node_id = ANY(CAST(:masked AS uuid[]))
    UNION ALL SELECT 'visit.item_id', count(*) FROM memforest.visit
     WHERE tenant_id = :t AND item_id = ANY(CAST(:points AS uuid[]))
    UNION ALL SELECT 'index_row.point_id', count(*) FROM memforest.index_row
     WHERE tenant_id = :t AND point_id = ANY(CAST(:points AS uuid[])) AND NOT deleted
    UNION ALL SELECT 'turn.content', count(*) FROM {TURNS}
      JOIN memforest.turn x ON x.tenant_id = :t AND x.session_id = u.session AND x.ordinal = u.ordinal
     WHERE NOT (x.erased AND x.content = '' AND x.name = '' AND x.speaker_id = '' AND x.metadata = '{{}}')
    UNION ALL SELECT 'extraction_cache.session_id', count(*) FROM memforest.extraction_cache
     WHERE tenant_id = :t AND session_id = ANY(CAST(:held AS uuid[]))
    UNION ALL SELECT 'summary_cache.tree_id', count(*) FROM memforest.summary_cache
     WHERE tenant_id = :t AND tree_id = ANY(CAST(:trees AS uuid[]))
    UNION ALL SELECT 'vector.text_hash', count(*) FROM memforest.vector v
     WHERE v.tenant_id = :t AND v.forest_id = :f AND v.model IN (SELECT model FROM memforest.collection)
       AND v.text_hash = ANY(CAST(:hashes AS bytea[])) AND {UNUSED}
    """
)

LEFT_OF_SESSION = sa.text(
    """
    SELECT 'session.session_id', count(*) FROM memforest.session WHERE tenant_id = :t AND session_id = :session
    UNION ALL SELECT 'turn.session_id', count(*) FROM memforest.turn WHERE tenant_id = :t AND session_id = :session
    UNION ALL SELECT 'cell.session_id', count(*) FROM memforest.cell WHERE tenant_id = :t AND session_id = :session
    UNION ALL SELECT 'tree.tree_id', count(*) FROM memforest.tree WHERE tenant_id = :t AND tree_id = :tree
    UNION ALL SELECT 'placement.tree_id', count(*) FROM memforest.placement WHERE tenant_id = :t AND tree_id = :tree
    UNION ALL SELECT 'node.tree_id', count(*) FROM memforest.node WHERE tenant_id = :t AND tree_id = :tree
    UNION ALL SELECT 'extraction_cache.session_id', count(*) FROM memforest.extraction_cache
     WHERE tenant_id = :t AND session_id = :session
    """
)

LEFT_OF_FACT = sa.text(
    """
    SELECT 'fact.fact_id', count(*) FROM memforest.fact WHERE tenant_id = :t AND fact_id = :fact
    UNION ALL SELECT 'fact.superseded_by', count(*) FROM memforest.fact
     WHERE tenant_id = :t AND forest_id = :f AND superseded_by = :fact
    UNION ALL SELECT 'occurrence.fact_id', count(*) FROM memforest.occurrence WHERE tenant_id = :t AND fact_id = :fact
    UNION ALL SELECT 'placement.payload_id', count(*) FROM memforest.placement
     WHERE tenant_id = :t AND payload_id = :fact
    UNION ALL SELECT 'node.payload_id', count(*) FROM memforest.node WHERE tenant_id = :t AND payload_id = :fact
    UNION ALL SELECT 'visit.item_id', count(*) FROM memforest.visit WHERE tenant_id = :t AND item_id = :fact
    UNION ALL SELECT 'index_row.point_id', count(*) FROM memforest.index_row
     WHERE tenant_id = :t AND point_id = :fact AND NOT deleted
    """
)

UNUSED_VECTORS = sa.text(
    f"SELECT count(*) FROM memforest.vector v WHERE v.tenant_id = :t AND v.forest_id = :f AND {UNUSED}"
)
