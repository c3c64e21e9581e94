"""The window of a session: load in one transaction, compact with nothing locked, keep what is still true."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from memforest_core.accept.running import FROZEN_S
from memforest_core.domain.evidence import Evidence, EvidenceKind
from memforest_core.domain.ids import FactId, ForestId, NodeId, SessionId, TenantId, session_id, tree_id
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.turns import LATEST_SESSION, checked_name
from memforest_core.errors import ForestFrozen, InvalidInput, NotFound, StoreUnavailable
from memforest_core.models.calls import CallRecord
from memforest_core.refresh.records import SummarySource
from memforest_core.settings import WindowSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import NO_OWNER, VISIBLE, known
from memforest_core.store.repeating import repeated
from memforest_core.window.arranging import Cover, chosen, cover, last_parts, older_parts, overflow, untold
from memforest_core.window.compacting import Compacted, Compactor
from memforest_core.window.fitting import fitted
from memforest_core.window.records import (
    HeldItems,
    KeptSummary,
    Loaded,
    SessionWindow,
    TreeSummary,
    WindowHead,
)
from memforest_core.window.rows import Reference, WindowRows, new_version, summary_of_tree
from memforest_core.work.telemetry import SILENT, Telemetry

TRIES = 3
"""How often a window is read again because somebody else compacted it, or a turn was deleted, meanwhile."""
MAX_BUDGET = 10_000_000
MAX_KEEP = 1_000
MAX_ITEMS = 1_000
"""Items that one call puts in."""
MAX_EXPANDED = 64
"""Nodes of one level of a tree that are looked into, the last ones: where more are not clean, turns stand for them."""

ItemInput = Evidence | UUID | str | tuple[str, str]
"""What can be put into a window: evidence, a fact's id, or a session's and a turn's id."""


@dataclass(frozen=True, slots=True)
class _Asked:
    max_tokens: int
    keep: int


class WindowService:
    """Windows of a tenant's sessions. Thread-safe."""

    def __init__(
        self, engine: Engine, settings: WindowSettings, compactor: Compactor, telemetry: Telemetry = SILENT
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._compactor = compactor
        self._telemetry = telemetry

    def window(
        self,
        tenant: TenantId,
        owner: str,
        session_id: str = LATEST_SESSION,
        *,
        max_tokens: int | None = None,
        keep: int | None = None,
    ) -> SessionWindow:
        """A session as a model should see it: the last turns word for word, older ones as summaries, and items.

        ``session_id`` "LATEST" names the session that runs or, without one, the one that got a turn last.
        ``max_tokens`` bounds the estimated tokens (the setting window.max_tokens unless given), ``keep`` turns stay
        word for word (window.keep). Summaries are those of the session's tree, where they are clean. When
        window.compact_turns turns have gathered without, all but ``keep`` of them are compacted: one call to the
        model of ``llm.summarize`` makes the next summary of the one before and what is new; without a model, rules do.
        A model that is away is no error: ``degraded`` says so. An owner without a memory, or without a session for
        LATEST, gets an empty window. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable.
        """
        asked = self._asked(max_tokens, keep)
        owner, name = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        if not self._settings.enabled:
            return SessionWindow("", (), asked.max_tokens, enabled=False)
        calls: list[CallRecord] = []
        notes: list[str] = []
        left = TRIES
        while True:
            loaded = self._load(tenant, owner, name, asked.keep)
            if isinstance(loaded, SessionWindow):
                return replace(loaded, max_tokens=asked.max_tokens)
            way = chosen(loaded, asked.max_tokens)
            due = self._due(loaded, way, asked)
            if due and not left:
                notes.append("Older turns are not compacted: the session changed again and again.")
            made = self._compact(tenant, loaded, calls, notes) if due and left else None
            unsaved = None if made is None else self._kept(tenant, loaded, made, notes)
            if made is None or unsaved is not None:
                shown = way if unsaved is None else Cover(unsaved, (), ())
                return self._shown(loaded, shown, asked, calls, notes)
            left -= 1

    def window_put(self, tenant: TenantId, owner: str, session_id: str, items: Sequence[ItemInput]) -> HeldItems:
        """Put what recall found into a session's window: references to facts and turns, never copies of words.

        ``items`` are pieces of evidence, ids of facts, or pairs of a session's and a turn's id, the best first, at most
        1,000. They stay until there are more than window.items: then those fall out that were put in, or put in again,
        the longest ago (window.eviction "LRU"), or put in first ("FIFO"). What is forgotten falls out at once.
        ``session_id`` as in ``window``. Raises NotFound for a session that is not stored, InvalidInput,
        StoreUnavailable.
        """
        owner, name = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        given = [each for item in _checked_items(items) for each in _named(item)]
        if not self._settings.enabled:
            return HeldItems("", 0, 0, 0, 0, enabled=False)
        return self._put(tenant, owner, name, given)

    def _asked(self, max_tokens: int | None, keep: int | None) -> _Asked:
        return _Asked(
            _whole(self._settings.max_tokens if max_tokens is None else max_tokens, "max_tokens", MAX_BUDGET),
            _whole(self._settings.keep if keep is None else keep, "keep", MAX_KEEP),
        )

    @repeated
    def _load(self, tenant: TenantId, owner: str, name: str, keep: int) -> Loaded | SessionWindow:
        """What a window is made from; a window without parts when there is nothing."""
        with WindowRows.opened(self._engine, tenant) as rows:
            forest = rows.find_forest(owner)
            if forest is None:
                return SessionWindow("", (), 0, owner_known=False)
            head = _head(rows, forest.id, owner, name)
            if isinstance(head, str):
                return SessionWindow(head, (), 0)
            kept, end = rows.kept(head.id), max(0, head.turns - keep)
            begin = kept.turns if kept is not None and self._grows(kept) else 0
            digest = rows.digest(head.id, begin, end) if head.turns - begin >= self._settings.compact_turns else b""
            root = rows.root(tree_id(forest.id, TreeKind.SESSION, str(head.id)))
            done = 0 if kept is None else kept.turns
            whole = _summaries(rows, root, 0, end)
            later = _summaries(rows, root, done, end) if done else whole
            waiting = rows.waiting(head.id, end)
            bare = {*untold(0, end, whole, waiting), *untold(done, end, later, waiting)}
            tree: Sequence[TreeSummary] | None = whole
            if begin and len(bare) > self._settings.compact_turns:
                # The tree lags behind; only what the kept summary does not stand for is needed word for word.
                tree, bare = None, {at for at in bare if at >= done}
            ends = {at for each in (*whole, *later) for at in (each.first, each.last)} | {0, max(0, done - 1)}
            return Loaded(
                forest=forest.id,
                frozen=forest.frozen,
                head=head,
                kept=kept,
                end=end,
                begin=begin,
                digest=digest,
                tree=tree,
                later=later,
                waiting=waiting,
                turns={turn.ordinal: turn for turn in rows.turns(head.id, bare, end)},
                ids=rows.ids(head.id, ends),
                items=rows.items(head.id),
            )

    def _grows(self, kept: KeptSummary) -> bool:
        """Whether the next summary is made from this one: what rules picked is made again once there is a model."""
        return self._compactor.chat is None or kept.source is not SummarySource.EXTRACTIVE

    def _due(self, loaded: Loaded, way: Cover, asked: _Asked) -> bool:
        """Whether enough turns have gathered without a summary, or what stands for them does not fit."""
        most = self._settings.compact_turns
        if loaded.frozen or loaded.head.turns - loaded.begin < most or loaded.begin >= loaded.end:
            return False
        if len(way.bare) + loaded.head.turns - loaded.end >= most:
            return True
        return way.chars > self._settings.summary_chars and overflow(way, loaded, asked.max_tokens) > 0

    def _compact(self, tenant: TenantId, loaded: Loaded, calls: list[CallRecord], notes: list[str]) -> Compacted | None:
        """The next summary, with nothing locked; None when there is nothing to tell."""
        base = loaded.kept if loaded.begin else None
        way = cover(loaded, base)
        texts = [part.text for part in older_parts(replace(way, kept=None), loaded)]
        if not texts:
            return None
        own: list[CallRecord] = []
        made = self._compactor.compact("" if base is None else base.text, texts, own)
        if own:
            calls += own
            self._telemetry.called(tenant, own)
            try:
                self._recorded(tenant, loaded, own)
            except StoreUnavailable:
                # The text is there and paid for; losing it as well would help nobody.
                notes.append("What the summary cost could not be recorded: Postgres was away.")
        notes += made.notes
        return made

    @repeated
    def _recorded(self, tenant: TenantId, loaded: Loaded, calls: Sequence[CallRecord]) -> None:
        with WindowRows.opened(self._engine, tenant) as rows:
            rows.record(calls, loaded.forest, loaded.head.id)

    def _kept(self, tenant: TenantId, loaded: Loaded, made: Compacted, notes: list[str]) -> KeptSummary | None:
        """Keep a summary, or find that the session is to be read again: None. What can't be kept is returned."""
        before = loaded.kept.input_hash if loaded.kept is not None and loaded.begin else b""
        digest = hashlib.sha256(before + loaded.digest).digest()
        summary = KeptSummary(loaded.end, made.text, made.source, made.model, digest, new_version())
        if made.source is SummarySource.DEGRADED:
            # The next window asks the model again: what rules picked is not built upon.
            return summary
        try:
            self._keep(tenant, loaded, summary)
        except StoreUnavailable:
            notes.append("The summary of older turns could not be kept: Postgres was busy or away.")
            return summary
        return None

    @repeated
    def _keep(self, tenant: TenantId, loaded: Loaded, summary: KeptSummary) -> bool:
        """Keep a summary if the turns that it tells are all there, and nobody kept another one meanwhile."""
        with WindowRows.opened(self._engine, tenant) as rows:
            if rows.lock_forest(loaded.forest) not in VISIBLE:
                return False
            if rows.digest(loaded.head.id, loaded.begin, loaded.end) != loaded.digest:
                return False
            replaced = None if loaded.kept is None else loaded.kept.version
            return rows.keep(loaded.forest, loaded.head.id, summary, replaced)

    def _shown(
        self, loaded: Loaded, way: Cover, asked: _Asked, calls: Sequence[CallRecord], notes: Sequence[str]
    ) -> SessionWindow:
        older = older_parts(way, loaded)
        parts, left_out = fitted(last_parts(loaded), older, loaded.items, asked.max_tokens)
        degraded = [part for part in older if part.source == SummarySource.DEGRADED and part.node_id is not None]
        if degraded:
            notes = [*notes, f"The model was away when {len(degraded)} summaries of the session's tree were made."]
        return SessionWindow(
            session_id=loaded.head.external_id,
            parts=parts,
            max_tokens=asked.max_tokens,
            left_out=left_out,
            turns=loaded.head.turns,
            compacted=0 if way.kept is None else way.kept.turns,
            degraded=tuple(dict.fromkeys(notes)),
            calls=len(calls),
        )

    @repeated
    def _put(self, tenant: TenantId, owner: str, name: str, given: Sequence[UUID | tuple[str, str]]) -> HeldItems:
        with WindowRows.opened(self._engine, tenant) as rows:
            forest = known(rows.find_forest(owner), owner, NO_OWNER)
            if forest.frozen:
                raise ForestFrozen(
                    f"Owner {owner!r:.80} is being merged into another: put it again in some seconds.",
                    retry_after=FROZEN_S,
                )
            # No deletion of what is referred to can pass by.
            rows.lock_forest(forest.id)
            head = _head(rows, forest.id, owner, name)
            if isinstance(head, str):
                raise NotFound(f"Owner {owner!r:.80} has no stored session yet: append a turn first.")
            found = _references(rows, forest.id, given)
            again = self._settings.eviction == "LRU"
            held, added, fallen = rows.put(forest.id, head.id, found[::-1], again=again, most=self._settings.items)
        return HeldItems(head.external_id, held, added, len(given) - len(found), fallen)


def _head(rows: WindowRows, forest: ForestId, owner: str, name: str) -> WindowHead | str:
    """The session; of the one that runs and has no turn yet its id, "" when there is none. Raises NotFound."""
    latest = rows.latest(forest) if name == LATEST_SESSION else name
    if latest is None:
        return ""
    head = rows.head(forest, latest)
    if head is None and name != LATEST_SESSION and rows.latest(forest) != name:
        raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
    return latest if head is None else head


def _summaries(rows: WindowRows, root: NodeId | None, start: int, end: int) -> list[TreeSummary]:
    """The highest clean nodes whose turns all lie from ``start`` to before ``end``, in order."""
    found: list[TreeSummary] = []
    nodes = [] if root is None or start >= end else [root]
    while nodes:
        open_ = []
        for span in rows.spans(nodes):
            if span.last < start or span.first >= end:
                continue
            if span.clean and span.text and start <= span.first and span.last < end:
                found.append(summary_of_tree(span))
            elif span.level > 1:
                open_.append(span.id)
        nodes = rows.children(open_[-MAX_EXPANDED:]) if open_ else []
    return sorted(found, key=lambda each: each.first)


def _references(rows: WindowRows, forest: ForestId, given: Sequence[UUID | tuple[str, str]]) -> list[Reference]:
    """What is there of what was given, in its order."""
    facts = rows.facts(forest, [each for each in given if isinstance(each, UUID)])
    turns: dict[str, list[str]] = {}
    for each in given:
        if not isinstance(each, UUID):
            turns.setdefault(each[0], []).append(each[1])
    places: dict[tuple[str, str], tuple[SessionId, int]] = {}
    for session, ids in turns.items():
        own = session_id(forest, session)
        places |= {(session, turn): (own, at) for turn, at in rows.ordinals(own, ids).items()}
    found: list[Reference] = []
    for each in given:
        if isinstance(each, UUID):
            found += [Reference(FactId(each))] if each in facts else []
        elif each in places:
            found.append(Reference(None, *places[each]))
    return found


def _checked_items(items: object) -> Sequence[object]:
    if isinstance(items, str) or not isinstance(items, Sequence) or len(items) > MAX_ITEMS:
        raise InvalidInput(f"Give at most {MAX_ITEMS} items as a list.", code="invalid_items")
    return items


def _named(item: object) -> list[UUID | tuple[str, str]]:
    """What an item names: facts by their ids, turns by the ids of session and turn. Raises InvalidInput."""
    match item:
        case Evidence():
            if item.kind is EvidenceKind.FACT and item.fact_ids:
                return [UUID(str(fact)) for fact in item.fact_ids[:1]]
            return [(item.session_id, turn) for turn in item.turn_ids]
        case UUID():
            return [item]
        case (str() as session, str() as turn):
            return [(checked_name(session, "session_id"), checked_name(turn, "turn_id"))]
        case str():
            try:
                return [UUID(item)]
            except ValueError:
                pass
    raise InvalidInput(
        "Give items as evidence, as ids of facts, or as pairs of a session's and a turn's id.", code="invalid_items"
    )


def _whole(value: object, name: str, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidInput(f"Set {name} to a whole number from 1 to {most:,}.", code=f"invalid_{name}")
    return value
