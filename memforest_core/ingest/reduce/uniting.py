"""Makes one scene of two that have grown together; the caller has locked the forest."""

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


def unite(rows: ReduceRows, forest: ForestId, target: Scene, absorbed: Scene, settings: Settings) -> int:
    """Move all facts of the ``absorbed`` scene to the ``target``, both of this forest and with trees; its leaves now.

    The target has the tags of both, and is hot. The absorbed scene ends.
    """
    scopes = rows.scopes
    tags = scopes.tags([target.id, absorbed.id])
    head = scopes.scopes([target.id])[target.id].head
    if head is None:
        raise InvariantViolated("A scene without a tree can't take in another one.")
    start, end = from_micros(min(target.start, absorbed.start)), from_micros(max(target.end, absorbed.end))
    together = SceneSpan(target.total + absorbed.total, start, end)
    scopes.move_members(absorbed.id, target.id)
    leaves = scene_leaves(target.id, scopes.members([target.id])[target.id])
    loaded = rows.load_paths([(target.id, leaf.key) for leaf in leaves])
    diff = insert(head, loaded[target.id], leaves, lambda: NodeId(uuid4()))
    refresh = settings.refresh
    change = TreeChange(target.id, diff.head, diff, together)
    rows.write_trees([change], refresh.quiet_of, refresh.max_staleness_s, [absorbed.id])
    if absorbed.id in tags:
        scopes.set_tags(target.id, united_tags(tags.get(target.id), tags[absorbed.id]))
    rows.warm([target.id])
    return diff.head.leaf_count
