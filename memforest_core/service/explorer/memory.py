"""Pages of one owner: sessions, states over time, topics, days, facts, questions, and what can be done about a fact."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from memforest_core.client.handles import Operation
from memforest_core.domain.evidence import Evidence, Mode, RecallResult
from memforest_core.domain.ids import TreeId
from memforest_core.domain.pages import to_cursor
from memforest_core.domain.turns import Turn
from memforest_core.errors import InvalidInput
from memforest_core.observe.reading.records import StoredFact
from memforest_core.recall.states import TimelineState
from memforest_core.service.explorer.drawing import Axis, proportions, stacked
from memforest_core.service.explorer.page_requests import Moved, Outcome, Shown, Visit, href, known, listed
from memforest_core.service.explorer.rows import ExplorerRows, SessionCell

SESSIONS = 50
STATES = 500
TOPICS = 100
DAYS = 30
EVERYBODY = "*"


def sessions(visit: Visit) -> Outcome:
    """Profile, numbers, and sessions, the newest first."""
    owner, cursor = visit.owner(), visit.parameter("cursor")
    memory = visit.memory
    found = known(owner, memory.sessions(owner, limit=SESSIONS, cursor=cursor))
    return Shown(
        "owner.html",
        {
            "owner": owner,
            "tab": "/owner",
            "profile": memory.services.describer.profile(visit.caller.tenant, owner, write=False),
            "state": memory.services.inspection.forest(visit.caller.tenant, owner),
            "sessions": found,
            "more": href("/owner", owner=owner, cursor=found.cursor) if found.cursor else None,
            "may_forget": visit.may("lifecycle.forget", owner=owner),
        },
    )


def states(visit: Visit) -> Outcome:
    """States as bars over time, a row for each attribute; what was superseded is faded."""
    owner, entity, cursor = visit.owner("timeline"), visit.parameter("entity") or EVERYBODY, visit.parameter("cursor")
    found = known(owner, visit.memory.timeline(owner, entity=entity, limit=STATES, cursor=cursor))
    moments = [at for state in found.states for at in (_begun(state), _known_until(state)) if at is not None]
    axis = Axis.over(moments) if moments else None
    chains = [] if axis is None else _chains(found.states, axis)
    return Shown(
        "states.html",
        {
            "owner": owner,
            "tab": "/states",
            "entity": "" if entity == EVERYBODY else entity,
            "chains": chains,
            "found": found.states,
            "axis": axis,
            "time_zone": found.time_zone,
            "current": sum(state.current for state in found.states),
            "count": len(found.states),
            "more": href("/states", owner=owner, entity=entity, cursor=found.cursor) if found.cursor else None,
        },
    )


def topics(visit: Visit) -> Outcome:
    """Topics, the one that reaches furthest in time first."""
    owner = visit.owner("topics")
    return listed("topics", owner, visit.memory.topics(owner, limit=TOPICS, cursor=visit.parameter("cursor")))


def days(visit: Visit) -> Outcome:
    """Digests of days, the newest first."""
    owner = visit.owner("days")
    return listed("days", owner, visit.memory.days(owner, limit=DAYS, cursor=visit.parameter("cursor")))


def _chains(found: tuple[TimelineState, ...], axis: Axis) -> list[dict[str, Any]]:
    """The states of each subject and attribute in the order of time, each with its bar."""
    grouped: dict[tuple[str, str], list[TimelineState]] = defaultdict(list)
    for state in found:
        grouped[state.subject, state.attribute].append(state)
    chains = []
    for (subject, attribute), own in grouped.items():
        states = [_drawn(state, number, axis) for number, state in enumerate(own)]
        # Of bars that overlap the narrow ones lie on top.
        on_top = sorted(states, key=lambda drawn: -drawn["bar"].width)
        chains.append({"subject": subject, "attribute": attribute, "states": states, "on_top": on_top})
    # What changed most is what people look for.
    return sorted(chains, key=lambda chain: (-len(chain["states"]), chain["subject"].casefold(), chain["attribute"]))


def _drawn(state: TimelineState, number: int, axis: Axis) -> dict[str, Any]:
    """A state and its bar, in another colour than its neighbours'; faded when it is not current."""
    begun = _begun(state)
    bar = axis.bar(begun, max(begun, axis.end if state.current else _known_until(state) or begun))
    return {"state": state, "bar": bar, "number": number % 2, "faded": not state.current}


def _begun(state: TimelineState) -> datetime:
    return (state.time.start or state.mentioned_at).astimezone(UTC)


def _known_until(state: TimelineState) -> datetime | None:
    """When it ended, else its last occurrence."""
    if state.ended is not None and state.ended.start is not None:
        return state.ended.start.astimezone(UTC)
    return state.last_mentioned_at.astimezone(UTC)


SESSION_TURNS = 100
BEFORE = 4
"""Turns that are shown before the chosen one."""
FACTS_OF_SESSION = 1_000
CALLS_OF_SESSION = 50


def session(visit: Visit) -> Outcome:
    """A page of the session's turns."""
    owner, session_id, cursor = visit.owner(), visit.needed("session"), visit.parameter("cursor")
    memory, turn = visit.memory, visit.parameter("turn")
    if turn is not None:
        cursor = _page_with(visit, owner, session_id, turn)
    turns = known(owner, memory.turns(owner, session_id, limit=SESSION_TURNS, cursor=cursor))
    facts = memory.facts(owner, session_id=session_id, limit=FACTS_OF_SESSION)
    calls = memory.calls(owner, session_id=session_id, limit=CALLS_OF_SESSION)
    cells, tree = _made_of(visit, owner, session_id, turns.items)
    progress = memory.status(owner, session_id)
    return Shown(
        "session.html",
        {
            "owner": owner,
            "session": session_id,
            "progress": progress,
            "groups": _groups(turns.items, cells),
            "facts_of": _facts_of(session_id, facts.items),
            "wanted": turn,
            "earlier": cursor is not None,
            "outcomes": Counter(cell.shown for cell in cells),
            "calls": calls,
            "tree": tree,
            "more": href("/session", owner=owner, session=session_id, cursor=turns.cursor) if turns.cursor else None,
            "may_forget": visit.may("lifecycle.forget", owner=owner),
        },
    )


def _made_of(
    visit: Visit, owner: str, session_id: str, turns: tuple[Turn, ...]
) -> tuple[Sequence[SessionCell], TreeId | None]:
    """The cells of these turns, and the session's tree if there is one already."""
    with ExplorerRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        forest = rows.forest(owner)
        tree = rows.session_tree(forest, session_id)
        return rows.cells(forest, session_id, turns[0].ordinal, turns[-1].ordinal) if turns else (), tree


def _page_with(visit: Visit, owner: str, session_id: str, turn: str) -> str | None:
    """The cursor of a page that has a turn among its first ones; None for the first page."""
    with ExplorerRows.opened(visit.memory.services.engine, visit.caller.tenant) as rows:
        ordinal = rows.turn(rows.forest(owner), session_id, turn).ordinal
    return None if ordinal < SESSION_TURNS else to_cursor([ordinal - BEFORE - 1])


def _groups(turns: tuple[Turn, ...], cells: Sequence[SessionCell]) -> list[tuple[list[SessionCell], list[Turn]]]:
    """Turns by the cells that hold them: parts of one long turn are cells of their own."""
    groups: list[tuple[list[SessionCell], list[Turn]]] = []
    for turn in turns:
        own = [cell for cell in cells if cell.first_turn <= turn.ordinal <= cell.last_turn]
        if groups and groups[-1][0] == own:
            groups[-1][1].append(turn)
        else:
            groups.append((own, [turn]))
    return groups


def _facts_of(session_id: str, facts: tuple[StoredFact, ...]) -> dict[str, list[StoredFact]]:
    """Facts by the turns of this session that say them."""
    found: dict[str, list[StoredFact]] = defaultdict(list)
    for fact in facts:
        for source in fact.sources:
            if source.session_id == session_id:
                for turn in source.turn_ids:
                    found[turn].append(fact)
    return dict(found)


FACTS = 100
SAYING_TURNS = 100
"""Of one fact, at most."""
CHOICES = {"yes": True, "no": False}


def facts(visit: Visit) -> Outcome:
    """Facts, the one that was learned last first."""
    owner = visit.owner("facts")
    chosen = {name: visit.parameter(name) for name in ("about", "attribute", "pinned", "superseded")}
    found = visit.memory.facts(
        owner,
        about=chosen["about"],
        attribute=chosen["attribute"],
        pinned=CHOICES.get(chosen["pinned"] or ""),
        superseded=CHOICES.get(chosen["superseded"] or ""),
        limit=FACTS,
        cursor=visit.parameter("cursor"),
    )
    page = listed("facts", owner, found, **chosen)
    return Shown(page.template, {**page.values, "chosen": chosen})


def fact(visit: Visit) -> Outcome:
    """One fact, the turns that say it, and what can be done about it."""
    owner = visit.owner("facts")
    reading, tenant = visit.memory.services.reading, visit.caller.tenant
    found = reading.fact(tenant, owner, visit.needed("fact"))
    newer = None if found.superseded_by is None else reading.fact(tenant, owner, found.superseded_by)
    with ExplorerRows.opened(visit.memory.services.engine, tenant) as rows:
        said = rows.saying(found.id, SAYING_TURNS)
    return Shown(
        "fact.html",
        {
            "owner": owner,
            "fact": found,
            "newer": newer,
            "said": said,
            "may_correct": visit.may("lifecycle.correct", owner=owner),
            "may_forget": visit.may("lifecycle.forget", owner=owner),
        },
    )


def forget_page(visit: Visit) -> Outcome:
    """What is to be forgotten, to be confirmed."""
    owner = visit.owner("lifecycle.forget")
    fact_id, session, turn = visit.parameter("fact"), visit.parameter("session"), visit.parameter("turn")
    reading, tenant = visit.memory.services.reading, visit.caller.tenant
    found = None if fact_id is None else reading.fact(tenant, owner, fact_id)
    words = None
    if turn is not None and session is not None:
        with ExplorerRows.opened(visit.memory.services.engine, tenant) as rows:
            words = rows.turn(rows.forest(owner), session, turn)
    values = {"owner": owner, "fact": found, "session": session, "turn": turn, "words": words}
    return Shown("forget.html", values)


def forget(visit: Visit) -> Outcome:
    """Ask for a deletion, or count what it would take."""
    owner = _owner(visit, "lifecycle.forget")
    lifecycle, dry_run = visit.memory.lifecycle, bool(visit.form.get("dry_run"))
    fact_id, session, turn = (visit.form.get(name) for name in ("fact", "session", "turn"))
    if fact_id:
        operation = lifecycle.forget(owner, fact=fact_id, actor=visit.actor, dry_run=dry_run)
    elif session:
        turns = [turn] if turn else []
        operation = lifecycle.forget(owner, session=session, turns=turns, actor=visit.actor, dry_run=dry_run)
    elif visit.form.get("everything") == owner:
        operation = lifecycle.forget(owner, everything=True, actor=visit.actor, dry_run=dry_run)
    else:
        raise InvalidInput("Say what to forget; for everything, type the owner's id.", code="nothing_named")
    return _to(operation, owner)


def correct(visit: Visit) -> Outcome:
    """Ask for a correction of a fact."""
    owner = _owner(visit, "lifecycle.correct")
    operation = visit.memory.lifecycle.correct(
        owner,
        visit.sent("fact"),
        text=visit.form.get("text") or None,
        value=visit.form.get("value") or None,
        actor=visit.actor,
    )
    return _to(operation, owner)


def pin(visit: Visit) -> Outcome:
    """Pin a fact, or let policies have it again."""
    owner = _owner(visit, "lifecycle.pin")
    lifecycle = visit.memory.lifecycle
    change = lifecycle.unpin if visit.form.get("pinned") else lifecycle.pin
    return _to(change(owner, visit.sent("fact"), actor=visit.actor), owner)


def _owner(visit: Visit, operation: str) -> str:
    """The owner that a form names. Raises Refused, InvalidInput."""
    owner = visit.sent("owner")
    visit.check(operation, owner=owner)
    return owner


def _to(operation: Operation, owner: str) -> Moved:
    return Moved(href("/operation", id=operation.id, owner=owner))


K = 10
FREE = (Mode.FLAT, Mode.EMBEDDING)
"""Modes that call no chat model: they are compared without being chosen."""
MAX_TOKENS = 100_000
SIGNALS = (
    *("fact", "cell", "session", "series", "current", "previous"),
    *("speaker", "time", "next_but_one", "tokens", "exact", "answer", "unread", "ranked"),
)
"""Signals whose colours are the same for every question."""
COLOURS = 12


def ask(visit: Visit) -> Outcome:
    """Evidence for a question, and what the other modes would have returned."""
    owner, question = visit.owner("recall"), visit.parameter("question")
    modes = list(Mode) if visit.memory.services.recall.chat is not None else [Mode.AUTO, *FREE]
    mode = visit.parameter("mode") or Mode.AUTO
    values = {"owner": owner, "tab": "/ask", "question": question or "", "mode": mode, "modes": modes, "result": None}
    if question is None:
        known(owner, visit.memory.sessions(owner, limit=1))
        return Shown("ask.html", values)
    # Looking counts as no visit: it changes neither what is important nor what policies keep.
    service, tenant = replace(visit.memory.services.recall, visits=None), visit.caller.tenant
    result: RecallResult = known(owner, service.recall(tenant, owner, question, K, mode))
    others = {
        str(each): result if each == result.mode else service.recall(tenant, owner, question, K, each)
        for each in dict.fromkeys([*FREE, result.mode])
    }
    most = max((item.score for item in result.evidence), default=0.0)
    items: list[dict[str, Any]] = [
        {"rank": rank, "evidence": item, "signals": stacked(item.signals, most), "voters": _voters(item)}
        for rank, item in enumerate(result.evidence, start=1)
    ]
    names = dict.fromkeys([*SIGNALS, *(part.name for item in items for part in item["signals"])])
    colours = {name: number % COLOURS + 1 for number, name in enumerate(names)}
    used = [name for name in names if any(part.name == name for item in items for part in item["signals"])]
    compared = {"others": others, "compared": _compared(list(others.values()))}
    return Shown(
        "ask.html", {**values, "result": result, "items": items, "signals": used, "colours": colours, **compared}
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
