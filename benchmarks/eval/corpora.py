"""The texts of one conversation in several cuts, as baselines search them, and the stored facts among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from functools import cached_property

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from benchmarks.eval.dataset import Conversation, Session, Turn
from benchmarks.eval.measuring import Quote
from benchmarks.eval.searching import Bm25, Order
from memforest_core.domain.cells import parts_of
from memforest_core.domain.evidence import day_label
from memforest_core.domain.ids import TenantId
from memforest_core.domain.indexed import cell_text, fact_terms_text
from memforest_core.domain.rendering import speech
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.store.engine import tenant_transaction

CELL_TURNS = 2
CHUNK_CHARS = 800
EMBEDDED_AT_ONCE = 256
STORED = 10
"""Conversations whose cuts are cached: with some 600 turns each, their vectors are 20 MB."""

FACTS = sa.text(
    """
    SELECT f.text, f.mentioned_at, f.statement ->> 'speaker' AS speaker, o.turns,
           (f.statement ->> 'verbatim')::boolean AS verbatim
      FROM memforest.fact f
      JOIN memforest.forest r ON r.tenant_id = f.tenant_id AND r.forest_id = f.forest_id
     CROSS JOIN LATERAL (
        SELECT array_agg(t.external_id ORDER BY t.occurred_at, t.ordinal) AS turns
          FROM memforest.occurrence o
          JOIN memforest.turn t ON t.tenant_id = o.tenant_id AND t.session_id = o.session_id
                               AND t.ordinal = ANY(o.turn_ordinals)
         WHERE o.tenant_id = f.tenant_id AND o.fact_id = f.fact_id) o
     WHERE f.tenant_id = :t AND r.owner = :owner
     ORDER BY f.seq
    """
)


Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts to unit vectors of shape (n, d)."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A text as it is searched, and what is delivered when it is found."""

    text: str
    quotes: tuple[Quote, ...]


class Corpus:
    """The texts of one conversation in one cut; searches are built when they are first used."""

    def __init__(self, texts: Sequence[Searched], embed: Embed) -> None:
        self.texts = texts
        self._embed = embed

    @cached_property
    def bm25(self) -> Bm25:
        """By words."""
        return Bm25([one.text for one in self.texts])

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """By meaning: shape (n, d)."""
        return vectors_of([one.text for one in self.texts], self._embed)

    @cached_property
    def sessions(self) -> list[str]:
        """Each text's session; for cuts whose texts have one quote."""
        return [one.quotes[0].session_id for one in self.texts]

    def quotes(self, order: Order) -> list[Quote]:
        """What is delivered, each turn once."""
        found: dict[tuple[str, ...], Quote] = {}
        for position in order:
            for quote in self.texts[position].quotes:
                found.setdefault((*quote.turn_ids, quote.text), quote)
        return list(found.values())


def vectors_of(texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
    """Vectors in calls of a bounded size."""
    parts = [embed(texts[start : start + EMBEDDED_AT_ONCE]) for start in range(0, len(texts), EMBEDDED_AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


class Cut(StrEnum):
    """What one text is."""

    TURNS = "turns"
    CELLS = "cells"
    CHUNKS = "chunks"
    SESSIONS = "sessions"
    FACTS = "facts"


class Corpora:
    """The cuts of each conversation, made when they are first needed; those of the last few conversations are cached.

    Tuning goes through all conversations before the questions of each.
    """

    def __init__(
        self,
        read_facts: Callable[[Conversation], list[Searched]],
        embed: Embed,
        zone: tzinfo,
        embed_query: Embed | None = None,
    ) -> None:
        """``embed_query`` makes a question's vector; ``embed`` for models that treat both alike."""
        self._read_facts = read_facts
        self._embed = embed
        self._embed_query = embed_query or embed
        self._zone = zone
        self._made: dict[int, tuple[Conversation, dict[Cut, Corpus]]] = {}

    def embed(self, text: str) -> NDArray[np.float32]:
        """One question's vector."""
        vector: NDArray[np.float32] = self._embed_query([text])[0]
        return vector

    def of(self, conversation: Conversation, cut: Cut) -> Corpus:
        """One cut of a conversation."""
        # By identity: the conversation is cached too, so that no other object can get the same id.
        _, made = self._made.pop(id(conversation), (conversation, {}))
        self._made[id(conversation)] = conversation, made
        if len(self._made) > STORED:
            del self._made[next(iter(self._made))]
        if cut not in made:
            made[cut] = Corpus(self._texts(conversation, cut), self._embed)
        return made[cut]

    def _texts(self, conversation: Conversation, cut: Cut) -> list[Searched]:
        if cut is Cut.FACTS:
            return self._read_facts(conversation)
        make = {Cut.TURNS: _turns, Cut.CELLS: _cells, Cut.CHUNKS: _chunks, Cut.SESSIONS: _whole}[cut]
        return [
            Searched(cell_text(text, moment), (_quote(text, moment, session, first, ids, self._zone),))
            for session in conversation.sessions
            for text, moment, first, ids in make(session)
        ]


Piece = tuple[str, datetime, int, tuple[str, ...]]
"""A text, when it begins, the position of its first turn in the session, and the ids of its turns."""


def _turns(session: Session) -> Iterator[Piece]:
    for number, turn in enumerate(session.turns):
        yield speech(turn.speaker, turn.text), _moment(session, turn), number, (turn.id,)


def _cells(session: Session) -> Iterator[Piece]:
    for first in range(0, len(session.turns), CELL_TURNS):
        turns = session.turns[first : first + CELL_TURNS]
        text = "\n".join(speech(turn.speaker, turn.text) for turn in turns)
        yield text, _moment(session, turns[0]), first, tuple(turn.id for turn in turns)


def _chunks(session: Session) -> Iterator[Piece]:
    """Whole turns up to 800 characters; a longer turn is cut into chunks of its own."""
    lines: list[tuple[int, Turn, str]] = []
    for number, turn in enumerate(session.turns):
        whole = speech(turn.speaker, turn.text)
        lines += [(number, turn, whole[start:end]) for start, end in parts_of(whole, CHUNK_CHARS)]
    taken: list[tuple[int, Turn, str]] = []
    for line in lines:
        if taken and sum(len(text) + 1 for _, _, text in taken) + len(line[2]) > CHUNK_CHARS:
            yield _joined(session, taken)
            taken = []
        taken.append(line)
    if taken:
        yield _joined(session, taken)


def _whole(session: Session) -> Iterator[Piece]:
    yield _joined(
        session, [(number, turn, speech(turn.speaker, turn.text)) for number, turn in enumerate(session.turns)]
    )


def _joined(session: Session, lines: Sequence[tuple[int, Turn, str]]) -> Piece:
    first, turn, _ = lines[0]
    ids = tuple(dict.fromkeys(turn.id for _, turn, _ in lines))
    return "\n".join(text for _, _, text in lines), _moment(session, turn), first, ids


def _moment(session: Session, turn: Turn) -> datetime:
    return turn.at or session.started_at


def _quote(text: str, moment: datetime, session: Session, ordinal: int, ids: tuple[str, ...], zone: tzinfo) -> Quote:
    span = TimeSpan(moment, moment, Precision.DAY)
    return Quote(text, span, day_label(span, zone), session.id, ordinal, ids)


def facts_of(
    engine: sa.Engine, tenant: TenantId, conversation: Conversation, zone: tzinfo, *, pointers: bool
) -> list[Searched]:
    """The stored facts of a conversation; one that only points to its turns delivers those.

    ``pointers`` says that all do, because they were extracted without a model.
    """
    turns: dict[str, Quote] = {}
    for session in conversation.sessions:
        for text, moment, first, ids in _turns(session):
            turns[ids[0]] = _quote(text, moment, session, first, ids, zone)
    with tenant_transaction(engine, tenant) as connection:
        rows = connection.execute(FACTS, {"t": tenant, "owner": conversation.id}).all()
    found = []
    for row in rows:
        sources = [turns[id_] for id_ in dict.fromkeys(row.turns or ()) if id_ in turns]
        if not sources:
            continue
        quotes: tuple[Quote, ...] = tuple(sources)
        if not (pointers or row.verbatim):
            ids = tuple(id_ for quote in sources for id_ in quote.turn_ids)
            said = sources[0]
            quotes = (Quote(row.text, said.time, said.time_label, said.session_id, said.ordinal, ids),)
        found.append(Searched(fact_terms_text(row.text, row.speaker or "", row.mentioned_at), quotes))
    return found
