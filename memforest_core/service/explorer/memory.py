"""Pages of one owner: days, a session, a fact, contexts, and what can be done about a fact."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from memforest_core.client.handles import Operation
from memforest_core.domain.pages import to_cursor
from memforest_core.domain.turns import Turn
from memforest_core.errors import InvalidInput
from memforest_core.observe.reading.records import StoredFact
from memforest_core.service.explorer.drawing import proportions
from memforest_core.service.explorer.finding_rows import FindingRows
from memforest_core.service.explorer.page_requests import Moved, Outcome, Shown, Visit, href, known, listed
from memforest_core.service.explorer.rows import ExplorerRows, SessionCell
from memforest_core.store.owners import known as known_forest

DAYS = 10


def days(visit: Visit) -> Outcome:
    """Digests of days, the newest first."""
    owner = visit.owner("days")
    return listed("days", owner, visit.memory.days(owner, limit=DAYS, cursor=visit.parameter("cursor")))


SESSION_TURNS = 50
BEFORE = 4
"""Turns that are shown before the chosen one."""
FACTS_OF_SESSION = 1_000
CALLS_OF_SESSION = 25


def session(visit: Visit) -> Outcome:
    """A page of the session's turns."""
    owner, session_id, cursor = visit.owner(), visit.needed("session"), visit.parameter("cursor")
    memory, turn = visit.memory, visit.parameter("turn")
    if turn is not None:
        with ExplorerRows.opened(memory.services.engine, visit.caller.tenant) as rows:
            ordinal = rows.turn(rows.forest(owner), session_id, turn).ordinal
        # The page that has the turn among its first ones.
        cursor = None if ordinal < SESSION_TURNS else to_cursor([ordinal - BEFORE - 1])
    turns = known(owner, memory.turns(owner, session_id, limit=SESSION_TURNS, cursor=cursor))
    facts = memory.facts(owner, session_id=session_id, limit=FACTS_OF_SESSION)
    calls = memory.calls(owner, session_id=session_id, limit=CALLS_OF_SESSION)
    with ExplorerRows.opened(memory.services.engine, visit.caller.tenant) as rows:
        forest, shown = rows.forest(owner), turns.items
        tree = rows.session_tree(forest, session_id)
        cells = rows.cells(forest, session_id, shown[0].ordinal, shown[-1].ordinal) if shown else ()
    progress = memory.status(owner, session_id)
    with FindingRows.opened(memory.services.engine, visit.caller.tenant) as findings:
        head = findings.begun(owner, [session_id])[session_id]
    return Shown(
        "session.html",
        {
            "owner": owner,
            "session": session_id,
            "head": head,
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


SAYING_TURNS = 100
"""Of one fact, at most."""


def fact(visit: Visit) -> Outcome:
    """One fact, the turns that say it, and what can be done about it."""
    owner = visit.owner("facts")
    reading, tenant = visit.memory.services.reading, visit.caller.tenant
    found = reading.fact(tenant, owner, visit.needed("fact"))
    newer = None if found.superseded_by is None else reading.fact(tenant, owner, found.superseded_by)
    with ExplorerRows.opened(visit.memory.services.engine, tenant) as rows:
        said, forest = rows.saying(found.id, SAYING_TURNS), known_forest(rows.find_forest(owner), owner)
    return Shown(
        "fact.html",
        {
            "owner": owner,
            "fact": found,
            "newer": newer,
            "said": said,
            "zone": ZoneInfo(forest.time_zone),
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


MAX_TOKENS = 100_000


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
