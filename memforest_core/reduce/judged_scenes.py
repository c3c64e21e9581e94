"""Scenes that a model says are one topic become one: read, asked about, and united only if they are still the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import structlog

from memforest_core.domain.ids import ForestId, TenantId, TreeId
from memforest_core.errors import StoreUnavailable
from memforest_core.models.calls import CallRecord
from memforest_core.reduce.judging import Judge
from memforest_core.reduce.records import ReduceBatch
from memforest_core.reduce.routing.scenes import Scene
from memforest_core.reduce.rows import ReduceRows
from memforest_core.reduce.uniting import unite
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.telemetry import Telemetry

log = structlog.get_logger(__name__)

SHOWN_FACTS = 5
"""Facts of a scene that the model is shown: the newest."""

SIZES = (3, 10, 30, 60)
"""Facts of a scene from which on another answer may be expected."""

Pair = tuple[TreeId, TreeId]


@dataclass(frozen=True, slots=True)
class JudgedScenes:
    """Unites scenes of a tenant's forests. Only those with trees: the others wait for more facts."""

    engine: Engine
    judge: Judge
    telemetry: Telemetry

    def run(self, tenant: TenantId, batch: ReduceBatch, pairs: Sequence[Pair], settings: Settings) -> int:
        """Unite those of these pairs that the model says are one topic; how many it did not judge.

        The caller holds no lock. A pair whose scenes have changed since they were read stays apart, and so do all
        while somebody else writes the forest: the answers are remembered. Postgres that does not answer is logged: what
        the batch placed is stored already.
        """
        try:
            return self._run(tenant, batch, pairs, settings)
        except StoreUnavailable as error:
            log.warning("scenes_not_united", forest=str(batch.forest_id), pairs=len(pairs), code=error.code)
            return len(pairs)

    def _run(self, tenant: TenantId, batch: ReduceBatch, pairs: Sequence[Pair], settings: Settings) -> int:
        forest, cap = batch.forest_id, settings.reduce.scene_cap
        with ReduceRows.opened(self.engine, tenant) as rows:
            scenes = _scenes(rows, forest, pairs)
            texts = rows.scopes.told(list(scenes), SHOWN_FACTS)
        whole: dict[Hashable, Pair] = {}
        for one, other in pairs:
            stand = {one, other} <= scenes.keys() & texts.keys()
            if stand and scenes[one].size + scenes[other].size <= cap:
                whole[_key(scenes[one], scenes[other])] = (one, other)
        if not whole:
            return 0
        calls: list[CallRecord] = []
        shown = {key: (texts[one], texts[other]) for key, (one, other) in whole.items()}
        said = self.judge.scenes(forest, shown, calls)
        self.telemetry.called(tenant, calls)
        self._record(tenant, forest, calls)
        for key, pair in whole.items():
            if said.get(key):
                self._unite(tenant, batch, (scenes[pair[0]], scenes[pair[1]]), settings)
        return len(whole) - len(said)

    @repeated
    def _record(self, tenant: TenantId, forest: ForestId, calls: Sequence[CallRecord]) -> None:
        with ReduceRows.opened(self.engine, tenant) as rows:
            rows.record(calls, forest)

    @repeated
    def _unite(self, tenant: TenantId, batch: ReduceBatch, seen: tuple[Scene, Scene], settings: Settings) -> bool:
        """Whether the two scenes, which are as they were seen, are one now."""
        forest = batch.forest_id
        with ReduceRows.opened(self.engine, tenant) as rows:
            if rows.lock_forest(forest, wait=False) is None:
                return False
            now = _scenes(rows, forest, [(seen[0].id, seen[1].id)])
            if any(each.id not in now or now[each.id].size != each.size for each in seen):
                return False
            kept, absorbed = sorted((now[each.id] for each in seen), key=lambda each: (-each.size, str(each.id)))
            unite(rows, forest, kept, absorbed, settings)
        log.info("scenes_united", forest=str(forest), kept=str(kept.id), absorbed=str(absorbed.id))
        return True


def _scenes(rows: ReduceRows, forest: ForestId, pairs: Sequence[Pair]) -> dict[TreeId, Scene]:
    return rows.scopes.grown_scenes(forest, sorted({tree for pair in pairs for tree in pair}))


def _key(one: Scene, other: Scene) -> Hashable:
    """A pair is asked about again when one of the two has grown past the next of ``SIZES``."""
    return frozenset((scene.id, sum(size <= scene.size for size in SIZES)) for scene in (one, other))
