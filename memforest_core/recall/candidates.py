"""What a recall gathers from the store: candidate cells, their facts and turns, and the trees above them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from memforest_core.domain.conditions import Test
from memforest_core.domain.ids import FactId, ForestId, PayloadId
from memforest_core.domain.scopes import TreeKind
from memforest_core.index.vector_index import PointKind
from memforest_core.recall.records import Above, CellRef, FactHead, Link, TurnHead, TurnKey
from memforest_core.recall.rows.reading import RecallRows
from memforest_core.recall.shortlist import Shortlist
from memforest_core.store.reads import Read

OCCURRENCES_PER_FACT = 4
"""Of a fact that was said often, as many of the cells that said it last become candidates."""


CHAIN_NEIGHBOURS = 2
"""States before and after a found one that become candidates."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a recall needs to know of its candidates beyond their cells, turns and links."""

    sentences: bool
    """Whether facts are delivered as pieces; else each only points to its turn."""
    fact_times: bool
    """Whether it matters when what they tell happened."""
    session_paths: bool
    """Whether session trees vote."""
    topics: frozenset[TreeKind]
    """The families whose trees vote for the facts in them: of entities, of scenes."""
    chains: bool
    """Whether states before and after the found ones count; for all questions they would cost a point of recall."""
    said_until: datetime | None = None
    """What was said after this moment is not known yet; None for no limit."""
    metadata: Test | None = None
    """What a turn's metadata, or where they are silent its session's, must fulfil."""

    @property
    def families(self) -> frozenset[TreeKind]:
        """The families whose trees vote at all."""
        return self.topics | ({TreeKind.SESSION} if self.session_paths else frozenset())


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of one recall."""

    cells: Mapping[UUID, CellRef]
    turns: Mapping[TurnKey, TurnHead]
    links: Collection[Link]
    """Occurrences of facts that are not known to be wrong."""
    heads: Mapping[FactId, FactHead]
    topics: Mapping[PayloadId, tuple[UUID, ...]]
    """The lowest nodes above the facts that were found, in entity and scene trees. A fact in no scene's tree stands for
    the scene that it would be alone."""
    chains: Mapping[FactId, tuple[FactId, ...]]
    """The states next to a fact's own: before it, after it."""
    sentences: bool
    sessions: Mapping[UUID, tuple[UUID, UUID]] = field(default_factory=dict)
    """By cell, the lowest node above it in its session's tree and that tree's root."""
    corrections: Mapping[TurnKey, tuple[FactId, ...]] = field(default_factory=dict)
    """The facts that correct what each turn says."""

    def facts_by_turn(self) -> dict[TurnKey, list[FactId]]:
        """Which facts each turn says."""
        said: dict[TurnKey, list[FactId]] = defaultdict(list)
        for link in self.links:
            for ordinal in link.turn_ordinals:
                voices = said[link.session_id, ordinal]
                if link.fact_id not in voices:
                    voices.append(link.fact_id)
        return said

    def writes(self, fact: FactId) -> bool:
        """Whether a model wrote the fact's sentence: then it is delivered as a piece of its own."""
        head = self.heads.get(fact)
        return self.sentences and head is not None and not head.pointer

    def topics_of(self, facts: Iterable[FactId]) -> tuple[UUID, ...]:
        """What votes for these facts as their topics."""
        if not self.topics:
            return ()
        return tuple({node: None for fact in facts for node in self.topics.get(PayloadId(fact), ())})

    def chained_to(self, facts: Iterable[FactId]) -> tuple[FactId, ...]:
        """The states next to these facts' own."""
        return tuple({linked: None for fact in facts for linked in self.chains.get(fact, ())}) if self.chains else ()

    def voters(self) -> dict[UUID, PointKind]:
        """Every point whose score counts for some candidate, with what it is."""
        voters: dict[UUID, PointKind] = dict.fromkeys(self.cells, PointKind.CELL)
        voters.update((node, PointKind.NODE) for nodes in self.topics.values() for node in nodes)
        voters.update((link.fact_id, PointKind.FACT) for link in self.links)
        voters.update((node, PointKind.NODE) for nodes in self.sessions.values() for node in nodes)
        return voters


@dataclass(frozen=True, slots=True)
class OfHits:
    """What is read of the hits of the flat search before trees are browsed."""

    above: Sequence[Above]
    facts: Collection[UUID]
    """Whose ``links`` these are: all of them are candidates."""
    links: Sequence[Link]


def gather(
    rows: RecallRows,
    forest: ForestId,
    cells: Collection[UUID],
    facts: Collection[UUID],
    reads: Reads,
    of_hits: OfHits,
    shortlist: Shortlist | None = None,
) -> Candidates:
    """Read the cells, the cells of the facts and of the states beside them, all their facts, and what is above them,
    as far as it was not read of the hits before; of many cells only those of a ``shortlist``."""
    placed = of_hits.above
    chains: dict[FactId, tuple[FactId, ...]] = defaultdict(tuple)
    if reads.chains:
        # A state that was found brings its neighbours in the chain, and its score counts for them.
        for fact, linked in rows.chains(forest, list(facts), CHAIN_NEIGHBOURS, reads.said_until):
            chains[linked] += (fact,)
    facts = {*facts, *chains}
    unread = [fact for fact in facts if fact not in of_hits.facts]
    said = [*of_hits.links, *rows.one(rows.links_of_facts(unread, OCCURRENCES_PER_FACT, reads.said_until))]
    wanted = dict.fromkeys([*cells, *(link.cell_id for link in said)])
    if shortlist is not None and len(wanted) > shortlist.most:
        wanted = dict.fromkeys(shortlist.of(cells, said))
        facts = {link.fact_id for link in said if link.cell_id in wanted}
        placed = [each for each in placed if each.payload in wanted or each.payload in facts]
    (known, heads_of_turns), occurrences, others = rows.together(
        rows.cells(forest, list(wanted)),
        rows.links_of_cells(list(wanted), reads.said_until),
        _above(rows, wanted, facts, reads, {each.payload for each in placed}),
    )
    above = [*(each for each in placed if each.kind in reads.families), *others]
    found: dict[UUID, CellRef] = {cell.id: cell for cell in known}
    if len(found) < len(wanted):
        occurrences = [link for link in occurrences if link.cell_id in found]
        above = [each for each in above if each.kind is not TreeKind.SESSION or each.payload in found]
    links = [link for link in occurrences if link.superseded_by is None]
    told = list(dict.fromkeys(link.fact_id for link in links))
    heads = rows.fact_heads(told) if reads.sentences or reads.fact_times else []
    turns: Mapping[TurnKey, TurnHead] = {(turn.session_id, turn.ordinal): turn for turn in heads_of_turns}
    if (test := reads.metadata) is not None:
        noted = rows.one(rows.metadata(list(turns)))
        turns = {key: turn for key, turn in turns.items() if key in noted and test(noted[key].merged)}
    return Candidates(
        cells=found,
        turns=turns,
        links=links,
        heads={head.id: head for head in heads},
        topics=_topics(above, facts, reads.topics) if reads.topics else {},
        chains=dict(chains),
        sentences=reads.sentences,
        sessions={each.payload: (each.lowest, each.root) for each in above if each.kind is TreeKind.SESSION},
        corrections=_corrections(occurrences),
    )


def _above(
    rows: RecallRows, cells: Collection[UUID], facts: Collection[UUID], reads: Reads, placed: Collection[UUID]
) -> Read[list[Above]]:
    """What is above the cells in their sessions' trees, and above the facts in the trees of topics, without those that
    are ``placed`` already."""
    payloads = [*(cells if reads.session_paths else ()), *(facts if reads.topics else ())]
    return rows.lowest_above([payload for payload in payloads if payload not in placed], reads.families)


def _topics(
    above: Iterable[Above], facts: Iterable[UUID], families: frozenset[TreeKind]
) -> Mapping[PayloadId, tuple[UUID, ...]]:
    topics: dict[PayloadId, tuple[UUID, ...]] = defaultdict(tuple)
    alone = dict.fromkeys(map(PayloadId, facts)) if TreeKind.SCENE in families else {}
    for each in above:
        if each.kind is not TreeKind.SESSION:
            topics[each.payload] += (each.lowest,)
        if each.kind is TreeKind.SCENE:
            alone.pop(each.payload, None)
    for payload in alone:
        topics[payload] += (payload,)
    return dict(topics)


def _corrections(occurrences: Iterable[Link]) -> dict[TurnKey, tuple[FactId, ...]]:
    """The facts that correct wrong facts, by the turn that says those."""
    found: dict[TurnKey, dict[FactId, None]] = defaultdict(dict)
    for link in occurrences:
        right = link.fact_id if link.corrected else None
        if link.superseded_by is not None:
            right = link.superseded_by
        if right is not None:
            for ordinal in link.turn_ordinals:
                found[link.session_id, ordinal][right] = None
    return {turn: tuple(facts) for turn, facts in found.items()}


def cell_turns(cell: CellRef) -> list[TurnKey]:
    """The turns of a cell."""
    return [(cell.session_id, ordinal) for ordinal in range(cell.first_turn, cell.last_turn + 1)]
