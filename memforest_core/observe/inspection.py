"""Inspection of a running system: its progress, size, trees, costs and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from memforest_core.domain.ids import ForestId, TenantId, TreeId
from memforest_core.domain.pages import Page, checked_limit, from_cursor, page_of
from memforest_core.domain.turns import checked_name, parse_timestamp
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.models.calls import Step
from memforest_core.observe.records import (
    CallFilter,
    CostBy,
    Costs,
    DrawnNode,
    ForestState,
    LoggedCall,
    ModelCalls,
    Overview,
    Spent,
    SystemState,
    TreeOverview,
)
from memforest_core.observe.rows import ObserveRows
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import known
from memforest_core.store.schema import head_revision

UTC_ZONE = ZoneInfo("UTC")
LAST_MINUTE = timedelta(minutes=1)
MAX_NAMED = 8
"""Trees that an ambiguous name lists in its error."""


def open_inspection(engine: Engine, settings: Settings) -> InspectionService:
    """Over a connection pool: it needs no index and no models."""
    return InspectionService(engine, settings.worker.dead_after_s, settings.only_english)


@dataclass(frozen=True, slots=True)
class InspectionService:
    """Reads only; every answer is one transaction's view."""

    engine: Engine
    dead_after_s: float
    """A worker that is silent for longer counts as dead."""
    only_english: str = ""
    """What sessions in other languages go without."""

    def system(self, tenant: TenantId) -> SystemState:
        """Schema, workers, and the tenant's totals. Raises StoreUnavailable, InvalidSettings."""
        with ObserveRows.opened(self.engine, tenant) as rows:
            return SystemState(
                schema_revision=rows.revision(),
                schema_needed=head_revision(),
                workers=tuple(rows.workers(self.dead_after_s)),
                owners=rows.forests(),
                totals=rows.totals(None),
                troubles=tuple(rows.troubles(None)),
                model_calls=tuple(rows.model_calls(None)),
                warnings=rows.not_english(None, self.only_english),
            )

    def forest(self, tenant: TenantId, owner: str) -> ForestState:
        """One forest's totals. Raises NotFound, StoreUnavailable."""
        with ObserveRows.opened(self.engine, tenant) as rows:
            forest = _forest(rows, owner)
            warnings = rows.not_english(forest, self.only_english)
            return ForestState(owner, rows.totals(forest), tuple(rows.troubles(forest)), warnings)

    def model_calls(self, tenant: TenantId, owner: str) -> list[ModelCalls]:
        """The model calls of one forest, by step and model. Raises NotFound, StoreUnavailable."""
        with ObserveRows.opened(self.engine, tenant) as rows:
            return rows.model_calls(_forest(rows, owner))

    def trees(self, tenant: TenantId, owner: str) -> list[TreeOverview]:
        """The owner's active trees, by kind, then by time. Raises NotFound, StoreUnavailable."""
        with ObserveRows.opened(self.engine, tenant) as rows:
            return rows.overviews(_forest(rows, owner))

    def tree_overview(self, tenant: TenantId, owner: str, tree: TreeId) -> TreeOverview:
        """One of the owner's active trees. Raises NotFound, StoreUnavailable."""
        with ObserveRows.opened(self.engine, tenant) as rows:
            found = rows.overviews(_forest(rows, owner), tree)
        if not found:
            raise NotFound(f"Owner {owner!r:.80} has no tree {tree}.")
        return found[0]

    def tree(
        self, tenant: TenantId, owner: str, wanted: str, depth: int | None = None
    ) -> tuple[TreeOverview, Sequence[DrawnNode]]:
        """One tree and the nodes of its upper ``depth`` levels (the root is the first), or all of them.

        ``wanted`` is as ``chosen`` takes it. Raises NotFound, InvalidInput, StoreUnavailable.
        """
        with ObserveRows.opened(self.engine, tenant) as rows:
            overview = chosen(rows.overviews(_forest(rows, owner)), wanted)
            lowest = 0 if depth is None else max(0, overview.height - depth + 1)
            return overview, rows.nodes(overview.id, lowest)

    def overview(self, tenant: TenantId) -> Overview:
        """The state of a tenant's work. Raises StoreUnavailable, InvalidSettings."""
        with ObserveRows.opened(self.engine, tenant) as rows:
            now = rows.now()
            return Overview(
                at=now,
                queues=tuple(rows.backlog()),
                workers=tuple(rows.workers(self.dead_after_s)),
                last_minute=rows.spent(now - LAST_MINUTE),
                today=rows.spent(now.replace(hour=0, minute=0, second=0, microsecond=0)),
            )

    def costs(self, tenant: TenantId, by: CostBy, which: CallFilter) -> Costs:
        """What model calls cost. Raises InvalidInput, NotFound for an unknown owner, StoreUnavailable."""
        if which.since is not None and which.until is not None and which.since >= which.until:
            raise InvalidInput("Give a --since that is before --until.", code="invalid_period")
        with ObserveRows.opened(self.engine, tenant) as rows:
            if which.owner is not None:
                _forest(rows, which.owner)
            found = tuple(rows.spent_on(by, which))
        return Costs(by, found, summed([row.spent for row in found]))

    def calls(
        self,
        tenant: TenantId,
        owner: str | None = None,
        *,
        session_id: str | None = None,
        step: str | None = None,
        outcome: str | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[LoggedCall]:
        """The model calls that were made, failed ones too, the newest first: tokens, dollars and latency of each.

        ``owner`` and ``session_id`` select the calls made for them, ``step`` those of one step ("extract", "summarize",
        "browse", "plan", "answer", "profile", "embed", "rerank"), ``outcome`` those that ended so ("ok" or an
        error's code), ``since`` and ``until`` those recorded from that time to before that time (ISO 8601, unix seconds
        or datetimes; UTC without a zone). ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of
        the page before. Without an owner the whole tenant's; an owner without a memory yet has none, and
        ``owner_known`` is False. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable.
        """
        which = _wanted(owner, session_id, step, outcome, since, until)
        limit, after = checked_limit(limit), from_cursor(cursor, datetime, int)
        with ObserveRows.opened(self.engine, tenant) as rows:
            if which.owner is not None:
                forest = rows.find_forest(which.owner)
                if forest is None:
                    return Page((), owner_known=False)
                if which.session_id is not None and rows.session(forest.id, which.session_id) is None:
                    raise NotFound(f"Owner {which.owner!r:.80} has no session {which.session_id!r:.80}.")
            found = rows.calls(which, after, limit + 1)
        return page_of(found, limit, lambda call: call, lambda call: [call.at, call.id])


def _wanted(
    owner: str | None, session_id: str | None, step: str | None, outcome: str | None, since: object, until: object
) -> CallFilter:
    """Which calls are wanted. Raises InvalidInput."""
    if session_id is not None and owner is None:
        raise InvalidInput("Give owner with session_id: session ids are an owner's.", code="missing_owner")
    if step is not None and step not in list(Step):
        raise InvalidInput(f"Set step to one of {', '.join(Step)}, not {step!r:.40}.", code="invalid_step")
    first, last = (
        None if given is None else parse_timestamp(given, UTC_ZONE, name)
        for name, given in (("since", since), ("until", until))
    )
    if first is not None and last is not None and first >= last:
        raise InvalidInput("Set until to a time after since.", code="invalid_period")
    return CallFilter(
        owner=None if owner is None else checked_name(owner, "owner"),
        session_id=None if session_id is None else checked_name(session_id, "session_id"),
        step=None if step is None else Step(step).value,
        outcome=None if outcome is None else checked_name(outcome, "outcome"),
        since=first,
        until=last,
    )


def summed(parts: Sequence[Spent]) -> Spent:
    """The sum of all parts."""
    return Spent(**{each.name: sum(getattr(part, each.name) for part in parts) for each in fields(Spent)})


def _forest(rows: ObserveRows, owner: str) -> ForestId:
    return known(rows.find_forest(owner), owner).id


def chosen(trees: Sequence[TreeOverview], wanted: str) -> TreeOverview:
    """The one tree that ``wanted`` names: an id, a label, or the unique beginning of either.

    ``kind:label`` narrows by kind. A whole name goes before a beginning. Raises NotFound for none,
    InvalidInput for several.
    """
    name = wanted.strip().casefold()
    if not name:
        raise InvalidInput("Name a tree by its id or label.", code="invalid_tree")
    exact = [tree for tree in trees if name in _names(tree)]
    found = exact or [tree for tree in trees if any(known.startswith(name) for known in _names(tree))]
    if not found:
        raise NotFound(f"No tree is called {wanted!r:.80}: list them with memforest tree OWNER.")
    if len(found) > 1:
        several = ", ".join(f"{tree.id} ({tree.kind.value}:{tree.label})" for tree in found[:MAX_NAMED])
        raise InvalidInput(
            f"{len(found)} trees match {wanted!r:.80}; name one by its id: {several}.", code="ambiguous_tree"
        )
    return found[0]


def _names(tree: TreeOverview) -> tuple[str, ...]:
    label, key = tree.label.casefold(), tree.scope_key.casefold()
    return str(tree.id), tree.id.hex, label, key, f"{tree.kind.value}:{label}", f"{tree.kind.value}:{key}"
