"""A question: the answer or the best evidence first, why each piece was found, and what the modes would have found."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from memforest_core.domain.evidence import Evidence, Mode, RecallResult
from memforest_core.service.explorer.drawing import stacked
from memforest_core.service.explorer.page_requests import Outcome, Shown, Visit, known
from memforest_core.settings import OFFLINE

K = 10
FREE = (Mode.FLAT, Mode.EMBEDDING)
"""Modes that call no chat model: they are compared without being chosen."""
SIGNALS = {
    "fact": "its best fact matches",
    "cell": "its turn matches",
    "session": "its session matches",
    "series": "one of the series that the question wants",
    "current": "a current state",
    "previous": "the state before",
    "speaker": "said by whom the question names",
    "time": "in the time that the question names",
    "next_but_one": "the turn next but one matches",
    "tokens": "its words are near the question's",
    "exact": "it has a code of the question",
    "answer": "it replies to a turn that matches",
    "unread": "its turn matches better than its facts",
    "ranked": "a chat model ranked it",
    "rerank": "a reranker ranked it",
}
"""Signals with what they mean; their colours are the same for every question."""
COLOURS = 16


def ask(visit: Visit) -> Outcome:
    """Evidence for a question, its answer when a model shall write one, and on another tab the modes compared."""
    owner, question = visit.owner("recall"), visit.parameter("question")
    chat = visit.memory.services.recall.chat is not None
    modes = list(Mode) if chat else [Mode.AUTO, *FREE]
    mode, view = visit.parameter("mode") or Mode.AUTO, visit.parameter("view") or "evidence"
    values = {"owner": owner, "tab": "/ask", "question": question or "", "mode": mode, "modes": modes, "view": view}
    if question is None:
        known(owner, visit.memory.sessions(owner, limit=1))
        return Shown("ask.html", {**values, "result": None})
    # Looking counts as no visit: it changes neither what is important nor what policies keep.
    service, tenant = replace(visit.memory.services.recall, visits=None), visit.caller.tenant
    result: RecallResult = known(owner, service.recall(tenant, owner, question, K, mode))
    if view == "modes":
        others = {
            str(each): result if each == result.mode else service.recall(tenant, owner, question, K, each)
            for each in dict.fromkeys([*FREE, result.mode])
        }
        compared = {"others": others, "compared": _compared(list(others.values()))}
        return Shown("ask.html", {**values, "result": result, **compared})
    answer, llm = None, visit.memory.services.settings.llm
    answers = (llm.answer.model or llm.model) != OFFLINE
    if visit.parameter("answer") is not None and answers:
        visit.check("answer", owner=owner)
        answer = visit.memory.services.answering.answer(tenant, owner, question, result)
    return Shown("ask.html", {**values, "result": result, "answer": answer, "answers": answers, **_explained(result)})


def _explained(result: RecallResult) -> dict[str, Any]:
    """The evidence items with their signals, and the signals' colours and meanings."""
    most = max((item.score for item in result.evidence), default=0.0)
    items: list[dict[str, Any]] = [
        {"rank": rank, "evidence": item, "signals": stacked(item.signals, most), "voters": _voters(item)}
        for rank, item in enumerate(result.evidence, start=1)
    ]
    names = dict.fromkeys([*SIGNALS, *(part.name for item in items for part in item["signals"])])
    colours = {name: number % COLOURS + 1 for number, name in enumerate(names)}
    used = [name for name in names if any(part.name == name for item in items for part in item["signals"])]
    meanings = {name: SIGNALS.get(name, name.replace("_", " ")) for name in names}
    return {"items": items, "signals": used, "colours": colours, "meanings": meanings}


def _voters(item: Evidence) -> list[dict[str, Any]]:
    """The trees that voted for an item, with the nodes from the root down."""
    trees = groupby(item.path, key=lambda node: (node.tree_kind, node.label))
    return [{"kind": kind, "label": label, "nodes": list(nodes)} for (kind, label), nodes in trees]


def _compared(results: list[RecallResult]) -> list[dict[str, Any]]:
    """All items that any of the results has with their place in each, best ranks first."""
    ranks = [{_key(item): rank for rank, item in enumerate(each.evidence, start=1)} for each in results]
    items = {_key(item): item for each in results for item in each.evidence}
    rows = [{"evidence": item, "ranks": [own.get(key) for own in ranks]} for key, item in items.items()]
    return sorted(rows, key=lambda row: (min(filter(None, row["ranks"])), row["evidence"].text))


def _key(item: Evidence) -> tuple[object, ...]:
    return item.session_id, item.turn_ids, item.text
