"""A question: its evidence and why it was found, what each mode would return, and the context of a prompt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from memforest_core.domain.evidence import Evidence, Mode, PathNode, RecallResult
from memforest_core.domain.ids import TreeKind
from memforest_core.errors import InvalidInput
from memforest_core.service.explorer.drawing import Slice, proportions, stacked
from memforest_core.service.explorer.visits import Outcome, Shown, Visit, known

K = 10
FREE = (Mode.FLAT, Mode.EMBEDDING)
"""Modes that call no chat model: they are compared without being chosen."""
MAX_TOKENS = 100_000
SIGNALS = (
    *("fact", "cell", "related", "interval", "session", "order", "series", "current"),
    *("speaker", "time", "neighbour", "tokens", "exact", "answer", "unread", "ranked"),
)
"""Signals whose colours are the same for every question."""
COLOURS = 12


@dataclass(frozen=True, slots=True)
class Voter:
    """A tree that voted for an item, with the nodes from its root down."""

    kind: TreeKind
    label: str
    nodes: tuple[PathNode, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """An item of evidence, its place, and what put it there."""

    rank: int
    evidence: Evidence
    signals: tuple[Slice, ...]
    voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """An item that any mode returned, and its place in each."""

    evidence: Evidence
    ranks: tuple[int | None, ...]


def ask(visit: Visit) -> Outcome:
    """Evidence for a question, and what the other modes would have returned."""
    owner, question = visit.owner("recall"), visit.parameter("question")
    modes = list(Mode) if _has_model(visit) else [Mode.AUTO, *FREE]
    mode = visit.parameter("mode") or Mode.AUTO
    values = {"owner": owner, "tab": "/ask", "question": question or "", "mode": mode, "modes": modes, "result": None}
    if question is None:
        known(owner, visit.memory.sessions(owner, limit=1))
        return Shown("ask.html", values)
    # Looking counts as no visit: it changes neither what is important nor what policies keep.
    service, tenant = replace(visit.memory.services.recall, visits=None), visit.caller.tenant
    result: RecallResult = known(owner, replace(service, explains=True).recall(tenant, owner, question, K, mode))
    others = {
        str(each): result if each == result.mode else service.recall(tenant, owner, question, K, each)
        for each in dict.fromkeys([*FREE, result.mode])
    }
    most = max((item.score for item in result.evidence), default=0.0)
    items = [
        Piece(rank, item, tuple(stacked(item.signals, most)), _voters(item))
        for rank, item in enumerate(result.evidence, start=1)
    ]
    names = dict.fromkeys([*SIGNALS, *(part.name for item in items for part in item.signals)])
    colours = {name: number % COLOURS + 1 for number, name in enumerate(names)}
    used = [name for name in names if any(part.name == name for item in items for part in item.signals)]
    compared = {"others": others, "compared": _compared(list(others.values()))}
    return Shown(
        "ask.html",
        {**values, "result": result, "items": items, "signals": used, "colours": colours, **compared},
    )


def context(visit: Visit) -> Outcome:
    """What would go into the prompt of a chat turn."""
    owner, question = visit.owner("context"), visit.parameter("question")
    session, tokens = visit.parameter("session"), visit.parameter("tokens")
    known(owner, visit.memory.sessions(owner, limit=1))
    values = {"owner": owner, "tab": "/context", "question": question or "", "session": session or ""}
    if "question" not in visit.query:
        return Shown("context.html", {**values, "tokens": tokens or "", "made": None})
    if tokens is not None and not (tokens.isdecimal() and 0 < int(tokens) <= MAX_TOKENS):
        raise InvalidInput(f"Set tokens to a whole number from 1 to {MAX_TOKENS:,}.", code="invalid_max_tokens")
    made = visit.memory.context(owner, session, question, max_tokens=None if tokens is None else int(tokens))
    sections = list(made.section_tokens.items())
    bars = proportions([own for _, own in sections])
    return Shown("context.html", {**values, "tokens": tokens or "", "made": made, "sections": sections, "bars": bars})


def _voters(item: Evidence) -> tuple[Voter, ...]:
    trees = groupby(item.path, key=lambda node: (node.tree_kind, node.label))
    return tuple(Voter(kind, label, tuple(nodes)) for (kind, label), nodes in trees)


def _has_model(visit: Visit) -> bool:
    return visit.memory.services.recall.chat is not None


def _compared(results: list[RecallResult]) -> list[Compared]:
    """All items that any of the results has, best ranks first."""
    ranks = [{_key(item): rank for rank, item in enumerate(each.evidence, start=1)} for each in results]
    items = {_key(item): item for each in results for item in each.evidence}
    rows = [Compared(item, tuple(own.get(key) for own in ranks)) for key, item in items.items()]
    return sorted(rows, key=lambda row: (min(rank for rank in row.ranks if rank is not None), row.evidence.text))


def _key(item: Evidence) -> tuple[object, ...]:
    return item.session_id, item.turn_ids, item.text
