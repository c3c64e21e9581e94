"""Resolve: the best items become evidence, with their text, provenance, path, freshness and neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, tzinfo
from functools import cached_property
from math import inf
from uuid import UUID

from memforest_core.domain.evidence import Evidence, EvidenceKind, Freshness, PathNode, day_label, with_corrections
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import CellId, FactId, ForestId, NodeId, SessionId
from memforest_core.domain.rendering import turn_line
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.scoring import Voted, same_words
from memforest_core.domain.text import terms
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, from_micros
from memforest_core.recall.candidates import Candidates
from memforest_core.recall.known_trees import KnownTrees
from memforest_core.recall.records import FactText, Link, PlacedNode, TurnHead, TurnKey
from memforest_core.recall.rows.reading import RecallRows

SNIPPET_CHARS = 160
SPARE = 2
"""Candidates read per piece wanted: repetitions are left out. So many neighbours too: those that are wrong are."""

AT_ONCE = 160
"""Candidates that are read at once."""
MORE_CHARS = 1_000
"""What is read beyond a budget of text: some of it fits where a long piece does not."""
LONGEST = 8
"""Corrections of corrections that are followed."""


@dataclass(frozen=True)
class Resolver:
    """Makes evidence out of scored candidates."""

    rows: RecallRows
    forest: ForestId
    candidates: Candidates
    zone: tzinfo
    _: KW_ONLY
    same_words: float
    """The share of terms from which two pieces of one speaker and day count as one."""
    per_fact: int
    """At most so many pieces tell the same facts."""
    said_until: datetime | None = None
    """Nothing that was said after this moment is shown, and no summary that may know of it."""
    excluded: frozenset[str] = frozenset()
    """Ids of sessions of which nothing is a neighbour."""
    channels: frozenset[str] = frozenset()
    """Nothing is a neighbour that was said elsewhere, and no summary is shown that may know of it; empty for all."""
    owner: str = ""
    """Whose forest it is."""
    _trees: KnownTrees = field(default_factory=KnownTrees)

    @cached_property
    def _links(self) -> dict[tuple[FactId, CellId], Link]:
        # A fact can be in a cell by extraction and by a correction: the extracted occurrence counts.
        ordered = sorted(self.candidates.links, key=lambda link: not link.corrected)
        return {(link.fact_id, link.cell_id): link for link in ordered}

    def resolve(
        self, voted: Sequence[Voted], k: int, neighbours: int, max_chars: float = inf
    ) -> list[tuple[Voted, Evidence]]:
        """The first ``k`` different pieces, best first, each with the candidate that it was made of; of a budget of
        ``max_chars`` hardly more than it holds."""
        most = max_chars + MORE_CHARS
        kept: list[tuple[Voted, Evidence]] = []
        seen: dict[tuple[str, str], list[tuple[str, frozenset[str]]]] = defaultdict(list)
        told_by: Counter[FactId] = Counter()
        for one, content, facts in self._read(voted[: SPARE * k]):
            piece = None if content is None else self._evidence(one, content, facts)
            if piece is None or self._repeated(piece, seen[piece.speaker, piece.time_label]):
                continue
            if piece.fact_ids and min(told_by[fact] for fact in piece.fact_ids) >= self.per_fact:
                continue
            told_by.update(piece.fact_ids)
            kept.append((one, piece))
            most -= len(piece.text)
            if len(kept) == k or most <= 0:
                break
        kept = self._with_paths(kept, neighbours)
        if neighbours:
            kept = self._with_neighbours(kept, neighbours)
        return kept

    def _read(self, voted: Sequence[Voted]) -> Iterator[tuple[Voted, str | None, Mapping[UUID, FactText]]]:
        """The candidates with their turns' texts and their facts."""
        for start in range(0, len(voted), AT_ONCE):
            chosen = voted[start : start + AT_ONCE]
            wanted = [fact for one in chosen for fact in one.item.facts]
            wanted += [fact for one in chosen for fact in self.candidates.corrections.get(_turn(one), ())]
            texts, read = self.rows.together(
                self.rows.turn_texts(list(dict.fromkeys(_turn(one) for one in chosen))),
                self.rows.facts(self.forest, list(dict.fromkeys(wanted)), self.said_until),
            )
            facts = facts_with_successors(self.rows, self.forest, read, self.said_until)
            yield from ((one, texts.get(_turn(one)), facts) for one in chosen)

    def _evidence(self, one: Voted, content: str, facts: Mapping[UUID, FactText]) -> Evidence | None:
        """One piece without its path; None when its fact is gone."""
        item = one.item
        cell = self.candidates.cells[item.cell]
        head = self.candidates.turns[_turn(one)]
        told = [facts[fact] for fact in item.facts if fact in facts]
        turns = [head]
        corrected = False
        if item.fact is not None:
            if not told:
                return None
            fact, said = told[0], told[0].statement
            corrected = self._links[fact.id, cell.id].corrected
            span = said.time if said.time.known else _instant(said.mentioned_at, head.dated)
            text, kind, turns = said.text, EvidenceKind.FACT, self._sources(fact.id, cell.id, head)
        elif cell.char_start is not None:
            text = turn_line(head.name, content[cell.char_start : cell.char_end])
            span, kind = _instant(head.occurred_at, head.dated), EvidenceKind.CELL
        else:
            text = turn_line(head.name, content)
            span, kind = _instant(head.occurred_at, head.dated), EvidenceKind.TURN
        right = [] if item.fact is not None else self._right(one, facts)
        if right:
            corrected = True
            text = with_corrections(text, [dated_text(fact.statement, self.zone) for fact in right])
            told = [*right, *(fact for fact in told if fact not in right)]
        dated = [fact.statement.time for fact in told if fact.statement.time.known]
        return replace(
            self._piece(text, span, kind, head, turns),
            score=one.score,
            fact_ids=tuple(fact.id for fact in told),
            signals=one.signals,
            event=dated[0] if dated else UNKNOWN_TIME,
            corrected=corrected,
            pinned=any(fact.pinned for fact in told),
        )

    def _piece(
        self, text: str, span: TimeSpan, kind: EvidenceKind, head: TurnHead, turns: Sequence[TurnHead]
    ) -> Evidence:
        """A piece of the turn ``head``, told by ``turns``; without a score and facts."""
        return Evidence(
            text=text,
            time=span,
            time_label=day_label(span, self.zone),
            score=0.0,
            kind=kind,
            fact_ids=(),
            session_id=head.session_external_id,
            turn_ids=tuple(turn.external_id for turn in turns),
            ordinal=head.ordinal,
            speaker=head.name,
            origin=head.origin,
            owner=self.owner,
            channel=head.channel,
        )

    def _right(self, one: Voted, facts: Mapping[UUID, FactText]) -> list[FactText]:
        """The facts that correct a turn."""
        found = standing(self.candidates.corrections.get(_turn(one), ()), facts)
        links = ((fact, self._links.get((fact.id, CellId(one.item.cell)))) for fact in found)
        return [fact for fact, link in links if link is None or link.corrected]

    def _sources(self, fact: FactId, cell: CellId, head: TurnHead) -> list[TurnHead]:
        """The turns of a fact in one cell; those read already, and at least its own."""
        link = self._links[fact, cell]
        keys = [(link.session_id, ordinal) for ordinal in link.turn_ordinals]
        return [self.candidates.turns[key] for key in keys if key in self.candidates.turns] or [head]

    def _paths(self, one: Voted) -> list[list[PlacedNode]]:
        """Each tree's nodes above an item, from the root down; its session's tree first."""
        trees = self._trees
        paths = [trees.session_path(one.item.cell)]
        for fact in one.item.facts[:1]:
            leaves = trees.leaves.get(fact, [])
            paths += [trees.path(leaf) for leaf in leaves if leaf.kind is not TreeKind.SESSION]
        return [path[::-1] for path in paths if path]

    def _with_paths(self, kept: Sequence[tuple[Voted, Evidence]], neighbours: int) -> list[tuple[Voted, Evidence]]:
        """The pieces with the way down to them, how fresh it is, and what was noted about turn and session."""
        # The way to a piece is that to its first fact; beside which leaf its neighbours are, any of its facts may tell.
        facts = None if neighbours else 1
        payloads = {payload for one, _ in kept for payload in (one.item.cell, *one.item.facts[:facts])}
        placed, noted = self.rows.together(
            self.rows.paths(sorted(payloads), SNIPPET_CHARS),
            self.rows.metadata(list(dict.fromkeys(_turn(one) for one, _ in kept))),
        )
        self._trees.add(placed)
        # Pieces of one session share its nodes.
        nodes: dict[NodeId, PathNode] = {}
        found = []
        for one, piece in kept:
            above = [node for path in self._paths(one) for node in path]
            for node in above:
                if node.id not in nodes:
                    nodes[node.id] = _path_node(node, (node.text or "") if self._knows(node) else "")
            way = tuple([nodes[node.id] for node in above])
            freshness = self._freshness(one.item.cell)
            own = noted[_turn(one)]
            piece = replace(piece, path=way, freshness=freshness, metadata=own.turn, session_metadata=own.session)
            found.append((one, piece))
        return found

    def _knows(self, node: PlacedNode) -> bool:
        """Whether a summary tells only what was said in time and in the channels; entity and scene trees lie in the
        time of events, and go through all channels."""
        if self.channels and node.kind is not TreeKind.SESSION:
            return False
        if self.said_until is None:
            return True
        if node.kind is not TreeKind.SESSION or node.time_end is None:
            return False
        return from_micros(node.time_end) <= self.said_until

    def _repeated(self, piece: Evidence, seen: list[tuple[str, frozenset[str]]]) -> bool:
        """Whether one of the pieces of the same speaker and day says the same; adds the piece to them if not."""
        words = self._words(piece.text)
        if any(piece.text == text or same_words(words, others, self.same_words) for text, others in seen):
            return True
        seen.append((piece.text, words))
        return False

    def _words(self, text: str) -> frozenset[str]:
        return frozenset(terms(text))

    def _freshness(self, cell: UUID) -> Freshness:
        if not self.candidates.cells[cell].placed:
            return Freshness.RAW
        path = self._trees.session_path(cell)
        if all(node.text is None for node in path):
            return Freshness.FACT
        return Freshness.STALE_SUMMARY if any(node.stale for node in path) else Freshness.SUMMARY

    def _with_neighbours(self, kept: Sequence[tuple[Voted, Evidence]], n: int) -> list[tuple[Voted, Evidence]]:
        """Before and after each piece: in its entity's tree, else in the dialogue."""
        leaves = {id(piece): self._entity_leaf(one) for one, piece in kept}
        around = self.rows.around([leaf for leaf in leaves.values() if leaf], SPARE * n)
        told = self._told([id_ for near in around.values() for id_ in near.before + near.after])
        dialogue = self._dialogue([one for one, piece in kept if leaves[id(piece)] is None], n)
        found = []
        for one, piece in kept:
            leaf = leaves[id(piece)]
            if leaf is not None and leaf in around:
                near = around[leaf]
                before = [told[fact] for fact in near.before if fact in told][:n][::-1]
                after = [told[fact] for fact in near.after if fact in told][:n]
            else:
                session, ordinal = _turn(one)
                turns = [(session, ordinal + step) for step in range(-n, n + 1)]
                before = [dialogue[turn] for turn in turns[:n] if turn in dialogue]
                after = [dialogue[turn] for turn in turns[n + 1 :] if turn in dialogue]
            piece = replace(piece, predecessors=tuple(before), successors=tuple(after))
            found.append((one, piece))
        return found

    def _entity_leaf(self, one: Voted) -> NodeId | None:
        for fact in one.item.facts:
            for leaf in self._trees.leaves.get(fact, ()):
                if leaf.kind is TreeKind.ENTITY:
                    return leaf.id
        return None

    def _told(self, ids: Sequence[UUID]) -> dict[UUID, Evidence]:
        """Facts that are not known to be wrong as evidence, with the turns that said them last."""
        read = self.rows.one(self.rows.facts(self.forest, list(dict.fromkeys(ids)), self.said_until))
        facts = [fact for fact in read if fact.superseded_by is None]
        links: dict[UUID, Link] = {}
        for link in self.rows.one(self.rows.links_of_facts([fact.id for fact in facts], 1, self.said_until)):
            links[link.fact_id] = link
        keys = [(link.session_id, turn) for link in links.values() for turn in link.turn_ordinals]
        heads = {(head.session_id, head.ordinal): head for head in self.rows.turns(keys)}
        told: dict[UUID, Evidence] = {}
        for fact in facts:
            known = links.get(fact.id)
            turns = [
                heads[known.session_id, ordinal]
                for ordinal in (known.turn_ordinals if known else ())
                if known and (known.session_id, ordinal) in heads
            ]
            if not turns or not self._shows(turns[0]):
                continue
            said = fact.statement
            span = said.time if said.time.known else _instant(said.mentioned_at, turns[0].dated)
            told[fact.id] = replace(
                self._piece(said.text, span, EvidenceKind.FACT, turns[0], turns),
                fact_ids=(fact.id,),
                speaker=said.speaker,
                event=said.time,
                corrected=known.corrected if known else False,
                pinned=fact.pinned,
            )
        return told

    def _shows(self, head: TurnHead) -> bool:
        """Whether a turn may be a neighbour."""
        return head.session_external_id not in self.excluded and (not self.channels or head.channel in self.channels)

    def _dialogue(self, ones: Sequence[Voted], n: int) -> dict[TurnKey, Evidence]:
        """The turns around items, as evidence."""
        keys: dict[TurnKey, None] = {}
        for one in ones:
            session, ordinal = _turn(one)
            for near in range(max(0, ordinal - n), ordinal + n + 1):
                keys.setdefault((session, near))
        wanted = list(keys)
        texts = self.rows.one(self.rows.turn_texts(wanted))
        found: dict[TurnKey, Evidence] = {}
        for head in self.rows.turns(wanted):
            key = (head.session_id, head.ordinal)
            if key not in texts or (self.said_until is not None and head.occurred_at > self.said_until):
                continue
            span = _instant(head.occurred_at, head.dated)
            text = turn_line(head.name, texts[key])
            found[key] = self._piece(text, span, EvidenceKind.TURN, head, [head])
        return found


def _turn(one: Voted) -> TurnKey:
    session, ordinal, _ = one.item.place
    return SessionId(session), ordinal


def _instant(moment: datetime, dated: bool) -> TimeSpan:
    """When something was said; a turn without a time of its own has its session's day."""
    return TimeSpan(moment, moment, Precision.MINUTE if dated else Precision.DAY)


def _path_node(node: PlacedNode, summary: str) -> PathNode:
    if node.time_start is None or node.time_end is None:
        span = UNKNOWN_TIME
    else:
        span = TimeSpan(from_micros(node.time_start), from_micros(node.time_end), Precision.MINUTE)
    return PathNode(node.kind, node.label, node.level, span, summary, node.id)


def facts_with_successors(
    rows: RecallRows, forest: ForestId, read: list[FactText], until: datetime | None
) -> dict[UUID, FactText]:
    """These facts, and those that stand for the ones among them that are known by ``until`` to be wrong."""
    found: dict[UUID, FactText] = {fact.id: fact for fact in read}
    for _ in range(LONGEST - 1):
        missing = [fact.superseded_by for fact in read if fact.superseded_by and fact.superseded_by not in found]
        if not missing:
            break
        read = rows.one(rows.facts(forest, missing, until))
        found |= {fact.id: fact for fact in read}
    return found


def standing(corrections: Sequence[FactId], facts: Mapping[UUID, FactText]) -> Iterator[FactText]:
    """The facts at the ends of these corrections, each once; one that is not placed yet is not among them."""
    seen: set[UUID] = set()
    for right in corrections:
        fact = facts.get(right)
        while fact is not None and fact.superseded_by is not None and fact.id not in seen:
            seen.add(fact.id)
            fact = facts.get(fact.superseded_by)
        if fact is not None and fact.id not in seen:
            seen.add(fact.id)
            yield fact


def dated_text(said: Statement, zone: tzinfo) -> str:
    """A sentence with its day: what was corrected may be the day."""
    return f"{said.text} ({day_label(said.time, zone)})" if said.time.known else said.text
