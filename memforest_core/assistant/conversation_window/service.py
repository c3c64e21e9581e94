"""The window of a session: load in one transaction, compact with nothing locked, store what is still true."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from memforest_core.assistant.checked_calls import record_costs
from memforest_core.assistant.condensing import COMPACT_TURNS, Condensed, Condenser
from memforest_core.assistant.conversation_window.arranging import (
    Cover,
    chosen,
    cover,
    fitted,
    last_parts,
    older_parts,
    overflow,
    untold,
)
from memforest_core.assistant.conversation_window.records import (
    HeldItems,
    ItemInput,
    Loaded,
    PartKind,
    SessionWindow,
    StoredSummary,
    TreeSummary,
    WindowHead,
    named_items,
)
from memforest_core.assistant.conversation_window.rows import Reference, WindowRows
from memforest_core.domain.ids import FactId, ForestId, NodeId, SessionId, TenantId, TreeKind, session_id, tree_id
from memforest_core.domain.pages import checked_limit
from memforest_core.domain.rendering import block
from memforest_core.domain.turns import LATEST_SESSION, checked_name
from memforest_core.errors import ForestChanged, ForestFrozen, NotFound, StoreUnavailable
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.models.calls import CallRecord
from memforest_core.settings import WindowSettings
from memforest_core.store.engine import Engine
from memforest_core.store.owners import NO_OWNER, VISIBLE, ForestRef, known
from memforest_core.store.repeating import repeated
from memforest_core.work.telemetry import SILENT, Telemetry

MAX_EXPANDED = 64
"""Nodes of one level of a tree that are looked into, the last ones: where more are not clean, turns stand for them."""


def window_head(rows: WindowRows, forest: ForestId, owner: str, name: str) -> WindowHead | str:
    """The session; of the one that runs and has no turn yet its id, "" when there is none. Raises NotFound."""
    latest = rows.latest(forest) if name == LATEST_SESSION else name
    if latest is None:
        return ""
    head = rows.head(forest, latest)
    if head is None and name != LATEST_SESSION and rows.latest(forest) != name:
        raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
    return latest if head is None else head


def summaries(rows: WindowRows, root: NodeId | None, start: int, end: int) -> list[TreeSummary]:
    """The highest clean nodes whose turns all lie from ``start`` to before ``end``, in order."""
    found: list[TreeSummary] = []
    spans = [] if root is None or start >= end else rows.span(root)
    while spans:
        open_ = []
        for span in spans:
            if span.last < start or span.first >= end:
                continue
            if span.clean and span.text and start <= span.first and span.last < end:
                found.append(span)
            elif span.level > 1:
                open_.append(span.node_id)
        spans = rows.spans_below(open_[-MAX_EXPANDED:]) if open_ else []
    return sorted(found, key=lambda each: each.first)


def references(rows: WindowRows, forest: ForestId, given: Sequence[UUID | tuple[str, str]]) -> list[Reference]:
    """What is there of what was given, in its order."""
    facts = rows.facts(forest, [each for each in given if isinstance(each, UUID)])
    turns: dict[str, list[str]] = {}
    for each in given:
        if not isinstance(each, UUID):
            turns.setdefault(each[0], []).append(each[1])
    positions: dict[tuple[str, str], tuple[SessionId, int]] = {}
    for session, ids in turns.items():
        own = session_id(forest, session)
        positions |= {(session, turn): (own, at) for turn, at in rows.ordinals(own, ids).items()}
    found: list[Reference] = []
    for each in given:
        if isinstance(each, UUID):
            found += [Reference(FactId(each))] if each in facts else []
        elif each in positions:
            found.append(Reference(None, *positions[each]))
    return found


TRIES = 3
"""How often a window is read once more because somebody else compacted it, or a turn was deleted, meanwhile."""
MAX_BUDGET = 10_000_000
MAX_LAST_TURNS = 1_000


@dataclass(frozen=True, slots=True)
class WindowService:
    """Windows of a tenant's sessions. Thread-safe."""

    engine: Engine
    settings: WindowSettings
    compactor: Condenser
    telemetry: Telemetry = SILENT

    def window(
        self,
        tenant: TenantId,
        owner: str,
        session_id: str = LATEST_SESSION,
        *,
        max_tokens: int | None = None,
        last_turns: int | None = None,
    ) -> SessionWindow:
        """A session as a model should see it: the last turns word for word, older ones as summaries, and items.

        ``session_id`` "LATEST" names the session that runs or, without one, the one that got a turn last.
        ``max_tokens`` bounds the estimated tokens (the setting window.max_tokens unless given), ``last_turns`` turns
        stay word for word (window.last_turns). Summaries are those of the session's tree, where they are clean. When
        12 turns have gathered without, all but ``last_turns`` of them are compacted: one call to the
        model of ``llm.summarize`` makes the next summary of the one before and what is new; without a model, rules do.
        A model that is unavailable is no error: ``degraded`` says so. An owner without a memory, or without a session
        for LATEST, gets an empty window. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable.
        """
        settings = self.settings
        most = checked_limit(settings.max_tokens if max_tokens is None else max_tokens, MAX_BUDGET, "max_tokens")
        last = checked_limit(settings.last_turns if last_turns is None else last_turns, MAX_LAST_TURNS, "last_turns")
        owner, name = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        if not self.settings.enabled:
            return SessionWindow("", (), most, enabled=False)
        calls: list[CallRecord] = []
        notes: list[str] = []
        left = TRIES
        while True:
            loaded = self._load(tenant, owner, name, last)
            if isinstance(loaded, SessionWindow):
                return replace(loaded, max_tokens=most)
            way = chosen(loaded, most)
            due = self._due(loaded, way, most, last)
            if due and not left:
                notes.append("Older turns are not compacted: the session changed repeatedly.")
            made = self._compact(tenant, loaded, calls, notes) if due and left else None
            unsaved = None if made is None else self._stored(tenant, loaded, made, notes)
            if made is None or unsaved is not None:
                shown = way if unsaved is None else Cover(unsaved, (), ())
                return self._shown(loaded, shown, most, calls, notes)
            left -= 1

    def window_put(self, tenant: TenantId, owner: str, session_id: str, items: Sequence[ItemInput]) -> HeldItems:
        """Put what recall found into a session's window: references to facts and turns, never copies of words.

        ``items`` are items of evidence, ids of facts, or pairs of a session's and a turn's id, the best first, at most
        1,000. They stay until there are more than window.items: then those fall out that were put in (again)
        the longest ago (window.eviction "LRU"), or put in first ("FIFO"). What is forgotten falls out at once.
        ``session_id`` as in ``window``. Raises NotFound for a session that is not stored, InvalidInput,
        StoreUnavailable.
        """
        owner, name = checked_name(owner, "owner"), checked_name(session_id, "session_id")
        given = named_items(items)
        if not self.settings.enabled:
            return HeldItems("", 0, 0, 0, 0, enabled=False)
        return self._put(tenant, owner, name, given)

    @repeated
    def _load(self, tenant: TenantId, owner: str, name: str, last_turns: int) -> Loaded | SessionWindow:
        """What a window is made from; a window without parts when there is nothing."""
        with WindowRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(owner)
            if forest is None:
                return SessionWindow("", (), 0, owner_known=False)
            head = window_head(rows, forest.id, owner, name)
            if isinstance(head, str):
                return SessionWindow(head, (), 0)
            return self._loaded(rows, forest, head, last_turns)

    def _loaded(self, rows: WindowRows, forest: ForestRef, head: WindowHead, last_turns: int) -> Loaded:
        stored, end = rows.stored(head.id), max(0, head.turns - last_turns)
        # What rules picked is rebuilt once there is a model; else the next summary is made from the stored one.
        grows = self.compactor.chat is None or (stored is not None and stored.source is not SummarySource.EXTRACTIVE)
        begin = stored.turns if stored is not None and grows else 0
        digest = rows.digest(head.id, begin, end) if head.turns - begin >= COMPACT_TURNS else b""
        root = rows.root(tree_id(forest.id, TreeKind.SESSION, str(head.id)))
        done = 0 if stored is None else stored.turns
        whole = summaries(rows, root, 0, end)
        later = summaries(rows, root, done, end) if done else whole
        waiting = rows.waiting(head.id, end)
        bare = {*untold(0, end, whole, waiting), *untold(done, end, later, waiting)}
        tree: Sequence[TreeSummary] | None = whole
        if begin and len(bare) > COMPACT_TURNS:
            # The tree lags behind; only what the stored summary does not stand for is needed word for word.
            tree, bare = None, {at for at in bare if at >= done}
        ends = {at for each in (*whole, *later) for at in (each.first, each.last)} | {0, max(0, done - 1)}
        return Loaded(
            forest=forest.id,
            frozen=forest.frozen,
            head=head,
            stored=stored,
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

    def _due(self, loaded: Loaded, way: Cover, max_tokens: int, last_turns: int) -> bool:
        """Whether enough turns have gathered without a summary, or what covers them does not fit."""
        # Fewer than ``last_turns`` at once would mean a call for every few turns.
        most = max(COMPACT_TURNS, 2 * last_turns)
        if loaded.frozen or loaded.head.turns - loaded.begin < most or loaded.begin >= loaded.end:
            return False
        if len(way.bare) + loaded.head.turns - loaded.end >= most:
            return True
        return way.chars > self.settings.summary_chars and overflow(way, loaded, max_tokens) > 0

    def _compact(
        self, tenant: TenantId, loaded: Loaded, calls: list[CallRecord], notes: list[str]
    ) -> Condensed[str] | None:
        """The next summary, with nothing locked; None when there is nothing to tell."""
        base = loaded.stored if loaded.begin else None
        way = cover(loaded, base)
        parts = older_parts(replace(way, stored=None), loaded)
        # Summaries have lines of several turns.
        texts = [block(part.text) if part.kind is PartKind.TURN else part.text for part in parts]
        if not texts:
            return None
        own: list[CallRecord] = []
        made = self.compactor.compact("" if base is None else base.text, texts, own)
        calls += own
        notes += record_costs(self.engine, self.telemetry, tenant, own, loaded.forest, loaded.head.id, what="summary")
        notes += made.notes
        return made

    def _stored(self, tenant: TenantId, loaded: Loaded, made: Condensed[str], notes: list[str]) -> StoredSummary | None:
        """Keep a summary, or find that the session is to be read once more: None. What can't be stored is returned."""
        before = loaded.stored.input_hash if loaded.stored is not None and loaded.begin else b""
        digest = hashlib.sha256(before + loaded.digest).digest()
        summary = StoredSummary(loaded.end, made.text, made.source, made.model, digest, uuid4())
        if made.source is SummarySource.DEGRADED:
            # The next window calls the model once more: what rules picked is not built upon.
            return summary
        try:
            with WindowRows.opened(self.engine, tenant) as rows:
                rows.hurried()
                # All turns that it covers are there still, and nobody stored another one meanwhile.
                there = rows.lock_forest(loaded.forest) in VISIBLE
                if there and rows.digest(loaded.head.id, loaded.begin, loaded.end) == loaded.digest:
                    replaced = None if loaded.stored is None else loaded.stored.version
                    rows.store(loaded.forest, loaded.head.id, summary, replaced)
        except StoreUnavailable:
            notes.append("The summary of older turns could not be stored: Postgres was busy or unavailable.")
            return summary
        return None

    def _shown(
        self, loaded: Loaded, way: Cover, max_tokens: int, calls: Sequence[CallRecord], notes: Sequence[str]
    ) -> SessionWindow:
        older = older_parts(way, loaded)
        parts, left_out = fitted(last_parts(loaded), older, loaded.items, max_tokens)
        degraded = [part for part in older if part.source == SummarySource.DEGRADED and part.node_id is not None]
        if degraded:
            notes = [
                *notes,
                f"The model was unavailable when {len(degraded)} summaries of the session's tree were made.",
            ]
        return SessionWindow(
            session_id=loaded.head.external_id,
            parts=parts,
            max_tokens=max_tokens,
            left_out=left_out,
            turns=loaded.head.turns,
            compacted=0 if way.stored is None else way.stored.turns,
            degraded=tuple(dict.fromkeys(notes)),
            calls=len(calls),
        )

    @repeated
    def _put(self, tenant: TenantId, owner: str, name: str, given: Sequence[UUID | tuple[str, str]]) -> HeldItems:
        with WindowRows.opened(self.engine, tenant) as rows:
            forest = known(rows.find_forest(owner), owner, NO_OWNER)
            # No deletion of what is referred to can pass by.
            state = rows.lock_forest(forest.id)
            if state == "frozen":
                raise ForestFrozen(f"Owner {owner!r:.80} is being merged into another: retry in some seconds.")
            if state != "live":
                raise ForestChanged(f"The memory of owner {owner!r:.80} was replaced at this moment: retry.")
            head = window_head(rows, forest.id, owner, name)
            if isinstance(head, str):
                raise NotFound(f"Owner {owner!r:.80} has no stored session yet: append a turn first.")
            found = references(rows, forest.id, given)
            repeat_moves = self.settings.eviction == "LRU"
            held, added, fallen = rows.put(
                forest.id, head.id, found[::-1], repeat_moves=repeat_moves, most=self.settings.items
            )
        return HeldItems(head.external_id, held, added, len(given) - len(found), fallen)
