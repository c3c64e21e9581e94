"""Making one scene of two, as the reducer does with scenes that have grown together; the caller holds the forest."""

from __future__ import annotations

from uuid import uuid4

from memforest_core.domain.ids import ForestId, NodeId
from memforest_core.domain.tags import united_tags
from memforest_core.domain.times import from_micros
from memforest_core.errors import InvariantViolated
from memforest_core.ingest.reduce.placing import scene_leaves
from memforest_core.ingest.reduce.routing.scenes import Scene
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.memtree import insert
from memforest_core.settings import Settings
from memforest_core.store.trees import SceneSpan, TreeChange


def unite(rows: ReduceRows, forest: ForestId, kept: Scene, absorbed: Scene, settings: Settings) -> int:
    """Move all facts of the ``absorbed`` scene to the ``kept`` one, both of this forest and with trees; its leaves now.

    The kept one has the tags of both, and is hot. The absorbed scene ends.
    """
    scopes = rows.scopes
    tags = scopes.tags([kept.id, absorbed.id])
    head = scopes.scopes([kept.id])[kept.id].head
    if head is None:
        raise InvariantViolated("A scene without a tree can't take in another one.")
    start, end = from_micros(min(kept.start, absorbed.start)), from_micros(max(kept.end, absorbed.end))
    together = SceneSpan(kept.total + absorbed.total, start, end)
    scopes.move_members(absorbed.id, kept.id)
    leaves = scene_leaves(kept.id, scopes.members([kept.id])[kept.id])
    loaded = rows.load_paths([(kept.id, leaf.key) for leaf in leaves])
    diff = insert(head, loaded[kept.id], leaves, lambda: NodeId(uuid4()))
    refresh = settings.refresh
    change = TreeChange(kept.id, diff.head, diff, together)
    rows.write_trees([change], refresh.quiet_of, refresh.max_staleness_s, [absorbed.id])
    if absorbed.id in tags:
        scopes.set_tags(kept.id, united_tags(tags.get(kept.id), tags[absorbed.id]))
    rows.warm([kept.id])
    return diff.head.leaf_count
