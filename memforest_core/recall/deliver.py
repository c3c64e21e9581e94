"""Delivers the best candidates as evidence: different items with provenance, reranked, within the caller's budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import cached_property
from math import inf
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from memforest_core.domain.delivery import CHARS_PER_TOKEN, fitting
from memforest_core.domain.evidence import Evidence, EvidenceKind, Freshness, PathNode, day_label, with_corrections
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, TreeKind
from memforest_core.domain.rendering import turn_line
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, from_micros
from memforest_core.errors import ModelRejected, ModelUnavailable
from memforest_core.models.calls import CallRecord, Reranker, failed_call
from memforest_core.recall.candidates import Scope
from memforest_core.recall.records import CURRENT, FactText, Link, Metadata, PlacedNode, TurnHead, TurnKey
from memforest_core.recall.request import Request
from memforest_core.recall.retrieve import Clock
from memforest_core.recall.rows.recall_rows import RecallRows, RecallStore
from memforest_core.recall.score import Pool
from memforest_core.recall.table import Table
from memforest_core.settings import RecallSettings

RERANKED = "rerank"
"""The signal of a cross-encoder."""
SNIPPET_CHARS = 160
PER_FACT = 2
"""Items that may state one and the same fact: more repetitions of it are left out."""
SPARE = 2
"""Candidates read per item wanted: repetitions are left out. So many neighbours too: those that are wrong are."""
AT_ONCE, FEW, SHORT = 120, 2, 40
"""The most candidates that are read at once; how many more than are wanted; characters of a short text."""
MORE_CHARS = 1_000
"""What is read beyond a budget of text: some of it fits where a long item does not."""
LONGEST = 8
"""Corrections of corrections that are followed."""

Found = list[tuple[int, Evidence]]
"""Evidence items, each with its row of the table."""


@dataclass(frozen=True, slots=True)
class Deliverer:
    """Makes evidence of scored candidates; ``reranker`` scores the best items again."""

    store: RecallStore
    settings: RecallSettings
    reranker: Reranker | None

    def deliver(
        self, pool: Pool, request: Request, table: Table, clock: Clock
    ) -> tuple[tuple[Evidence, ...], list[str], list[CallRecord]]:
        """At most ``k`` items of all forests and sources, what was unavailable, and what a call to the cross-encoder
        cost; a vector has no words that one could read."""
        degraded: list[str] = []
        calls: list[CallRecord] = []
        reranker = self.reranker if request.vector is None else None
        first = 0 if reranker is None else self.settings.rerank.first
        with clock.stage("resolve"):
            evidence = self._resolved(pool, request, table, max(request.k, first))
        if reranker is not None:
            with clock.stage("rerank"):
                evidence, degraded, calls = reranked(reranker, request.question.text, evidence, first)
        least = -inf if request.min_score is None else request.min_score
        evidence = tuple(item for item in evidence[: request.k] if item.score >= least)
        if request.max_tokens is not None:
            several = len(pool.scopes) + len(request.sources) > 1
            evidence = tuple(fitting(evidence, request.max_tokens * CHARS_PER_TOKEN, several=several))
        return evidence, degraded, calls

    def _resolved(self, pool: Pool, request: Request, table: Table, wanted: int) -> tuple[Evidence, ...]:
        """The best ``wanted`` different items, the best first; of one forest no more than fit the budget, unless a
        cross-encoder puts them in another order."""
        chosen = table.ranking()[: SPARE * wanted]
        budget = inf if request.max_tokens is None or self.reranker else request.max_tokens * CHARS_PER_TOKEN
        items: Found = []
        for number, scope in enumerate(pool.scopes):
            own = [at for at in chosen if table.scope[at] == number]
            if own:
                with self.store.recalling(scope.tenant) as rows:
                    resolver = Resolver(rows, scope, table, self.settings)
                    items += resolver.resolve(own, wanted, request.neighbours, budget)
        if not pool.alone:
            outside = {item.id: item for item in pool.items}
            for at in chosen:
                if (item := outside.get(table.cell[at])) is not None:
                    evidence = replace(item.evidence, score=float(table.score[at]), signals=table.signals_of(at))
                    items.append((at, evidence))
            rank = {at: place for place, at in enumerate(chosen)}
            items.sort(key=lambda pair: rank[pair[0]])
        return tuple(item for _, item in items[:wanted])


def reranked(
    reranker: Reranker, question: str, evidence: Sequence[Evidence], first: int
) -> tuple[tuple[Evidence, ...], list[str], list[CallRecord]]:
    """The first items in the cross-encoder's order, the others after them; a sentence if it was unavailable; and what
    the call cost.

    Each item is shown under its date. Scores become those of the cross-encoder, moved above those of the rest; what
    says the current state stays first.
    """
    read, rest = evidence[:first], evidence[first:]
    if not read:
        return (), [], []
    try:
        reply = reranker.rerank(question, [f"{item.time_label}\n{item.text}" for item in read])
    except (ModelUnavailable, ModelRejected) as error:
        sentence = "The rerank model is unavailable: items are in the order of recall."
        return tuple(evidence), [sentence], failed_call(error)
    scores = reply.scores
    ahead = max(scores, default=0.0) - min(scores, default=0.0)
    scores = [score + ahead * (CURRENT in item.signals) for score, item in zip(scores, read, strict=True)]
    lift = max((item.score for item in rest), default=0.0) - min(scores, default=0.0)
    pairs = sorted(zip(scores, read, strict=True), key=lambda pair: -pair[0])
    moved = [replace(item, score=score + lift, signals={**item.signals, RERANKED: score}) for score, item in pairs]
    return (*moved, *rest), [], [reply.record]


@dataclass(slots=True)
class Paths:
    """Tree nodes that were read: leaves by their payloads, and the way up from them."""

    nodes: dict[UUID, PlacedNode] = field(default_factory=dict)
    leaves: dict[UUID, list[PlacedNode]] = field(default_factory=lambda: defaultdict(list))

    def add(self, nodes: Iterable[PlacedNode]) -> None:
        """Add leaves and ancestors; known ones stay."""
        for node in nodes:
            if node.id not in self.nodes:
                self.nodes[node.id] = node
                if node.payload_id is not None:
                    self.leaves[node.payload_id].append(node)

    def path(self, leaf: PlacedNode) -> list[PlacedNode]:
        """The ancestors of a leaf, lowest first."""
        path = [leaf]
        while (above := path[-1].parent_id) is not None and above in self.nodes:
            path.append(self.nodes[above])
        return path[1:]

    def session_path(self, cell: UUID) -> list[PlacedNode]:
        """The nodes above a cell in its session's tree, lowest first; empty until it is placed."""
        return next((self.path(leaf) for leaf in self.leaves.get(cell, ()) if leaf.kind is TreeKind.SESSION), [])


@dataclass(frozen=True)
class Resolver:
    """Makes evidence out of the scored candidates of one forest."""

    rows: RecallRows
    scope: Scope
    table: Table
    settings: RecallSettings
    _paths: Paths = field(default_factory=Paths)
    _nodes: dict[NodeId, PathNode] = field(default_factory=dict)

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.scope.forest.time_zone)

    @cached_property
    def _links(self) -> dict[tuple[FactId, CellId], Link]:
        # A fact can be in a cell by extraction and by a correction: the extracted occurrence counts.
        ordered = sorted(self.scope.candidates.links, key=lambda link: not link.corrected)
        return {(link.fact_id, link.cell_id): link for link in ordered}

    def resolve(self, ranking: Sequence[int], k: int, neighbours: int, max_chars: float = inf) -> Found:
        """The first ``k`` different items, best first; of a budget of ``max_chars`` hardly more than it has."""
        most = max_chars + MORE_CHARS
        found: Found = []
        seen: set[tuple[str, str, str]] = set()
        repeated: Counter[FactId] = Counter()
        some = int(min(AT_ONCE, k + FEW, most / SHORT))
        for at, item in self._read(ranking[: SPARE * k], some, neighbours > 0):
            if item is None or (said := (item.speaker, item.time_label, item.text)) in seen:
                continue
            seen.add(said)
            if item.fact_ids and min(repeated[fact] for fact in item.fact_ids) >= PER_FACT:
                continue
            repeated.update(item.fact_ids)
            found.append((at, item))
            most -= len(item.text)
            if len(found) == k or most <= 0:
                break
        return self._with_neighbours(found, neighbours) if neighbours else found

    def _read(self, ranking: Sequence[int], number: int, all_leaves: bool) -> Iterator[tuple[int, Evidence | None]]:
        """The candidates as items, a ``number`` of them in a round trip; None for one that was deleted."""
        corrections, until, table = self.scope.candidates.corrections, self.scope.bounds.said_until, self.table
        # The path to an item is that to its first fact; any of its facts may have the leaf whose neighbours are shown.
        leading = None if all_leaves else 1
        for start in range(0, len(ranking), number):
            chosen = ranking[start : start + number]
            keys = list(dict.fromkeys(map(table.key, chosen)))
            wanted = [fact for at in chosen for fact in (*table.facts[at], *corrections.get(table.key(at), ()))]
            payloads = {payload for at in chosen for payload in (table.cell[at], *table.facts[at][:leading])}
            said, read, placed, noted = self.rows.together(
                self.rows.turn_texts([key for key in keys if key not in self.scope.said]),
                self.rows.facts(self.scope.forest.id, list(dict.fromkeys(wanted)), until),
                self.rows.paths(sorted(payloads), SNIPPET_CHARS),
                self.rows.metadata(keys),
            )
            self.scope.said |= said
            self._paths.add(placed)
            facts = facts_with_successors(self.rows, self.scope.forest.id, read, until)
            for at, key in zip(chosen, map(table.key, chosen), strict=True):
                # Metadata is read last: a turn whose text was read earlier may be deleted by now.
                there = key in self.scope.said and key in noted
                yield at, self._evidence(at, self.scope.said[key], noted[key], facts) if there else None

    def _evidence(self, at: int, content: str, noted: Metadata, facts: Mapping[UUID, FactText]) -> Evidence | None:
        """One item without its neighbours; None when its fact was deleted."""
        table, candidates = self.table, self.scope.candidates
        cell, head = candidates.cells[table.cell[at]], candidates.turns[table.key(at)]
        stated = [facts[fact] for fact in table.facts[at] if fact in facts]
        if table.fact[at] is None:
            kind, turns, span = EvidenceKind.TURN, [head], _instant(head.occurred_at, head.dated)
            if cell.char_start is not None:
                kind, content = EvidenceKind.CELL, content[cell.char_start : cell.char_end]
            right = self._right(at, facts)
            dated, corrected = [dated_text(fact.statement, self._zone) for fact in right], bool(right)
            text = with_corrections(turn_line(head.name, content), dated)
            stated = [*right, *(fact for fact in stated if fact not in right)]
        elif stated:
            fact, said = stated[0], stated[0].statement
            kind, turns, text = EvidenceKind.FACT, self._sources(fact.id, cell.id, head), said.text
            span = said.time if said.time.known else _instant(said.mentioned_at, head.dated)
            corrected = self._links[fact.id, cell.id].corrected
        else:
            return None
        in_session = self._paths.session_path(cell.id)
        return self._item(
            text,
            span,
            kind,
            head,
            turns,
            score=float(table.score[at]),
            fact_ids=tuple(fact.id for fact in stated),
            path=self._path(at, in_session),
            signals=table.signals_of(at),
            freshness=_freshness(in_session) if cell.placed else Freshness.RAW,
            event=next((fact.statement.time for fact in stated if fact.statement.time.known), UNKNOWN_TIME),
            corrected=corrected,
            pinned=any(fact.pinned for fact in stated),
            metadata=noted.turn,
            session_metadata=noted.session,
        )

    def _item(
        self, text: str, span: TimeSpan, kind: EvidenceKind, head: TurnHead, turns: Sequence[TurnHead], **more: Any
    ) -> Evidence:
        """An item of the turn ``head``, said in ``turns``, with ``more`` of what is known of it."""
        return Evidence(
            text=text,
            time=span,
            time_label=day_label(span, self._zone),
            kind=kind,
            session_id=head.session_external_id,
            turn_ids=tuple(turn.external_id for turn in turns),
            ordinal=head.ordinal,
            origin=head.origin,
            owner=self.scope.forest.owner,
            channel=head.channel,
            **{"score": 0.0, "fact_ids": (), "speaker": head.name, **more},
        )

    def _right(self, at: int, facts: Mapping[UUID, FactText]) -> list[FactText]:
        """The facts that correct a turn."""
        found = last_corrections(self.scope.candidates.corrections.get(self.table.key(at), ()), facts)
        links = ((fact, self._links.get((fact.id, CellId(self.table.cell[at])))) for fact in found)
        return [fact for fact, link in links if link is None or link.corrected]

    def _sources(self, fact: FactId, cell: CellId, head: TurnHead) -> list[TurnHead]:
        """The turns of a fact in one cell; those read already, and at least its own."""
        link, turns = self._links[fact, cell], self.scope.candidates.turns
        keys = [(link.session_id, ordinal) for ordinal in link.turn_ordinals]
        return [turns[key] for key in keys if key in turns] or [head]

    def _path(self, at: int, in_session: Sequence[PlacedNode]) -> tuple[PathNode, ...]:
        """Each tree's nodes above a candidate, from the root down; its session's tree first."""
        paths = [in_session]
        for fact in self.table.facts[at][:1]:
            leaves = self._paths.leaves.get(fact, [])
            paths += [self._paths.path(leaf) for leaf in leaves if leaf.kind is not TreeKind.SESSION]
        return tuple([self._shown(node) for path in paths for node in reversed(path)])

    def _shown(self, node: PlacedNode) -> PathNode:
        # Items of one session share its nodes.
        if node.id not in self._nodes:
            summary, span = (node.text or "") if self._knows(node) else "", UNKNOWN_TIME
            if node.time_start is not None and node.time_end is not None:
                span = TimeSpan(from_micros(node.time_start), from_micros(node.time_end), Precision.MINUTE)
            self._nodes[node.id] = PathNode(node.kind, node.label, node.level, span, summary, node.id)
        return self._nodes[node.id]

    def _knows(self, node: PlacedNode) -> bool:
        """Whether a summary has only what was said in time and in the channels; entity and scene trees lie in the
        time of events, and go through all channels."""
        bounds, of_session = self.scope.bounds, node.kind is TreeKind.SESSION
        if bounds.said_until is None:
            return of_session or not bounds.channels
        return of_session and node.time_end is not None and from_micros(node.time_end) <= bounds.said_until

    def _with_neighbours(self, found: Found, n: int) -> Found:
        """Before and after each item: in its entity's tree, else in the dialogue."""
        leaves = {at: self._entity_leaf(at) for at, _ in found}
        around = self.rows.around([leaf for leaf in leaves.values() if leaf], SPARE * n)
        facts = self._fact_items([id_ for near in around.values() for side in near for id_ in side])
        dialogue = self._dialogue([self.table.key(at) for at, _ in found if leaves[at] is None], n)
        items = []
        for at, item in found:
            leaf = leaves[at]
            if leaf is not None and leaf in around:
                before, after = ([facts[fact] for fact in side if fact in facts][:n] for side in around[leaf])
                before.reverse()
            else:
                session, ordinal = self.table.key(at)
                turns = [(session, ordinal + step) for step in range(-n, n + 1)]
                before = [dialogue[turn] for turn in turns[:n] if turn in dialogue]
                after = [dialogue[turn] for turn in turns[n + 1 :] if turn in dialogue]
            items.append((at, replace(item, predecessors=tuple(before), successors=tuple(after))))
        return items

    def _entity_leaf(self, at: int) -> NodeId | None:
        leaves = (leaf for fact in self.table.facts[at] for leaf in self._paths.leaves.get(fact, ()))
        return next((leaf.id for leaf in leaves if leaf.kind is TreeKind.ENTITY), None)

    def _fact_items(self, ids: Sequence[UUID]) -> dict[UUID, Evidence]:
        """Facts that are not known to be wrong as evidence, with the turns that said them last."""
        until = self.scope.bounds.said_until
        read = self.rows.one(self.rows.facts(self.scope.forest.id, list(dict.fromkeys(ids)), until))
        facts = {fact.id: fact for fact in read if fact.superseded_by is None}
        latest = self.rows.one(self.rows.cells_of_facts(list(facts), 1, until))
        links = self.rows.one(self.rows.links_of_cells(list({cell for _, cell in latest}), until))
        links = [link for link in links if (link.fact_id, link.cell_id) in latest]
        keys = [(link.session_id, turn) for link in links for turn in link.turn_ordinals]
        heads = {(head.session_id, head.ordinal): head for head in self.rows.turns(keys)}
        items: dict[UUID, Evidence] = {}
        for link in links:
            turns = [heads[link.session_id, turn] for turn in link.turn_ordinals if (link.session_id, turn) in heads]
            if not turns or not self._shows(turns[0]):
                continue
            fact, said = facts[link.fact_id], facts[link.fact_id].statement
            span = said.time if said.time.known else _instant(said.mentioned_at, turns[0].dated)
            items[fact.id] = self._item(
                said.text,
                span,
                EvidenceKind.FACT,
                turns[0],
                turns,
                fact_ids=(fact.id,),
                speaker=said.speaker,
                event=said.time,
                corrected=link.corrected,
                pinned=fact.pinned,
            )
        return items

    def _shows(self, head: TurnHead) -> bool:
        """Whether a turn may be a neighbour."""
        excluded, channels = self.scope.bounds.excluded, self.scope.bounds.channels
        return head.session_external_id not in excluded and (not channels or head.channel in channels)

    def _dialogue(self, keys: Sequence[TurnKey], n: int) -> dict[TurnKey, Evidence]:
        """The turns around others, as evidence."""
        until = self.scope.bounds.said_until
        near = ((session, at) for session, turn in keys for at in range(max(0, turn - n), turn + n + 1))
        wanted = list(dict.fromkeys(near))
        texts = self.rows.one(self.rows.turn_texts(wanted))
        found: dict[TurnKey, Evidence] = {}
        for head in self.rows.turns(wanted):
            key = (head.session_id, head.ordinal)
            if key in texts and (until is None or head.occurred_at <= until):
                span = _instant(head.occurred_at, head.dated)
                found[key] = self._item(turn_line(head.name, texts[key]), span, EvidenceKind.TURN, head, [head])
        return found


def _instant(at: datetime, dated: bool) -> TimeSpan:
    """When something was said; a turn without a time of its own has its session's day."""
    return TimeSpan(at, at, Precision.MINUTE if dated else Precision.DAY)


def _freshness(above: Sequence[PlacedNode]) -> Freshness:
    """Of what is placed, by the nodes above it in its session's tree."""
    if all(node.text is None for node in above):
        return Freshness.FACT
    return Freshness.STALE_SUMMARY if any(node.stale for node in above) else Freshness.SUMMARY


def facts_with_successors(
    rows: RecallRows, forest: ForestId, read: list[FactText], until: datetime | None
) -> dict[UUID, FactText]:
    """These facts, and those that replace the ones among them that are known by ``until`` to be wrong."""
    found: dict[UUID, FactText] = {fact.id: fact for fact in read}
    for _ in range(LONGEST - 1):
        missing = [fact.superseded_by for fact in read if fact.superseded_by and fact.superseded_by not in found]
        if not missing:
            break
        read = rows.one(rows.facts(forest, missing, until))
        found |= {fact.id: fact for fact in read}
    return found


def last_corrections(corrections: Sequence[FactId], facts: Mapping[UUID, FactText]) -> Iterator[FactText]:
    """The facts at the ends of these corrections, each once; one that is not placed yet is not among them."""
    seen: set[UUID] = set()
    for right in corrections:
        at: FactId | None = right
        while at is not None and at not in seen and (fact := facts.get(at)) is not None:
            seen.add(at)
            if fact.superseded_by is None:
                yield fact
            at = fact.superseded_by


def dated_text(said: Statement, zone: tzinfo) -> str:
    """A sentence with its day: what was corrected may be the day."""
    return f"{said.text} ({day_label(said.time, zone)})" if said.time.known else said.text
