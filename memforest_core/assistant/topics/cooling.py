"""Cooling and warming topics, in rounds of small steps: each one transaction under its forest's lock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from memforest_core.assistant.topics.rows import Row, TopicRows, idle_s, topic_of
from memforest_core.domain.ids import ForestId, TenantId, TreeId
from memforest_core.domain.temperature import Rated, cooling
from memforest_core.index.collection_rows import CollectionStore
from memforest_core.settings import TopicSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated

log = structlog.get_logger(__name__)

PAGE = 1_000
"""Forests that are looked for at once."""
AT_ONCE = 20
"""Topics of an owner that one round cools, and as many that it warms."""
RATED = 200
"""Hot topics that one round rates, those to which nothing came for longest."""
LATE_S = 300.0
"""Visits are written up to a minute late, and later while the store was unavailable."""
STRAYS = 500
"""Points that one round writes again because no cold topic has them any more."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What a round did: topics that it cooled and warmed, and points that this changed."""

    cooled: int = 0
    warmed: int = 0
    points: int = 0

    def __add__(self, other: Changed) -> Changed:
        return Changed(self.cooled + other.cooled, self.warmed + other.warmed, self.points + other.points)


@dataclass(slots=True)
class TopicCooling:
    """Rounds over all forests of all tenants, for one thread. A killed round leaves whole steps only."""

    engine: Engine
    settings: TopicSettings
    clock: Callable[[], float] = time.monotonic
    """Seconds, monotonic."""
    _left: list[TenantId] = field(default_factory=list)
    _after: ForestId | None = None

    @property
    def unfinished(self) -> bool:
        """Whether the last call stopped within a round."""
        return bool(self._left)

    def run(self, budget_s: float = math.inf) -> Changed:
        """Warm what was read, and cool what is over; go on where the last call stopped. Stops within a round when
        ``budget_s`` seconds are spent. A forest that is busy is left to the next round.

        For workers, at any rate: a round costs a query per ``PAGE`` forests, and some for each with more topics than
        ``topics.max_topics``. Raises StoreUnavailable.
        """
        deadline = self.clock() + budget_s
        most = self.settings.max_topics if self.settings.cooling else 2**31 - 1
        if not self._left:
            self._left, self._after = list(CollectionStore(self.engine).tenants()), None
        done = Changed()
        while self._left and self.clock() < deadline:
            tenant = self._left[0]
            with TopicRows.opened(self.engine, tenant) as rows:
                found = rows.restless(self._after, most, PAGE)
            for forest in (forest for forest, restless in found if restless):
                done += self.run_forest(tenant, forest)
                self._after = forest
                if self.clock() >= deadline:
                    break
            else:
                self._after = found[-1][0] if len(found) == PAGE else None
                self._left = self._left if self._after else self._left[1:]
        if done != Changed():
            log.info("topics_cooled", cooled=done.cooled, warmed=done.warmed, points=done.points)
        return done

    def run_forest(self, tenant: TenantId, forest: ForestId) -> Changed:
        """One round over one forest. Raises StoreUnavailable."""
        own = self.settings
        with TopicRows.opened(self.engine, tenant) as rows:
            stirred = rows.visited(forest, LATE_S, AT_ONCE, every=not own.cooling)
        done = self._warm(tenant, forest, stirred)
        if not own.cooling:
            return done
        with TopicRows.opened(self.engine, tenant) as rows:
            over = rows.hot(forest) > own.max_topics
            # What was touched within a half-life is never cold, however unimportant.
            rated = rows.least_recent(forest, own.half_life_s, RATED, own.importance) if over else []
            chosen = self._chosen(rows, forest, rated)
        done += self._cool(tenant, forest, chosen) if chosen else Changed()
        if own.pack:
            with TopicRows.opened(self.engine, tenant) as rows:
                topics = rows.loose(forest, AT_ONCE)
            for topic in topics:
                self._pack(tenant, forest, topic)
        return done

    def _chosen(self, rows: TopicRows, forest: ForestId, found: list[Row]) -> list[TreeId]:
        """Those of these hot topics that become cold."""
        if not found:
            return []
        own, current = self.settings, rows.current(forest)
        topics = [topic_of(row, own) for row in found]
        rated = [Rated(topic.id, topic.priority, topic.id == current) for topic in topics]
        low = cooling(rated, rows.hot(forest), own.max_topics, own.cold_below)
        return [TreeId(id_) for id_ in low[:AT_ONCE]]

    @repeated
    def _warm(self, tenant: TenantId, forest: ForestId, topics: list[TreeId]) -> Changed:
        with TopicRows.opened(self.engine, tenant) as rows:
            if rows.lock_forest(forest, wait=False) != "live":
                return Changed()
            points = rows.set_temperature(topics, cold=False) + rows.warm_strays(forest, STRAYS)
            rows.unpack_strays(forest, AT_ONCE, every=not self.settings.pack)
        return Changed(warmed=len(topics), points=points)

    @repeated
    def _pack(self, tenant: TenantId, forest: ForestId, topic: TreeId) -> None:
        with TopicRows.opened(self.engine, tenant) as rows:
            if rows.lock_forest(forest, wait=False) == "live":
                rows.pack(forest, topic)

    @repeated
    def _cool(self, tenant: TenantId, forest: ForestId, chosen: list[TreeId]) -> Changed:
        """Rated again under the lock: something may have come to them, or been read of them, since."""
        with TopicRows.opened(self.engine, tenant) as rows:
            if rows.lock_forest(forest, wait=False) != "live":
                return Changed()
            found = rows.these(forest, chosen, self.settings.importance)
            idle = [row for row in found if row.cold_at is None and idle_s(row) > self.settings.half_life_s]
            topics = self._chosen(rows, forest, idle)
            points = rows.set_temperature(topics, cold=True)
        return Changed(cooled=len(topics), points=points)


@repeated
def access(engine: Engine, tenant: TenantId, forest: ForestId, topic: TreeId) -> None:
    """Count an access of a topic: the next round warms it if it is cold."""
    with TopicRows.opened(engine, tenant) as rows:
        rows.visit(forest, topic)


@repeated
def warm(engine: Engine, tenant: TenantId, forest: ForestId, topic: TreeId) -> bool:
    """Warm a topic at once; False where its forest is busy."""
    with TopicRows.opened(engine, tenant) as rows:
        free = rows.lock_forest(forest, wait=False) == "live"
        if free:
            rows.set_temperature([topic], cold=False)
        return free
