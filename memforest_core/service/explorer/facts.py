"""Facts: listed, one with its turns, and what can be done about it: correct, pin, forget."""

from __future__ import annotations

from memforest_core.client.handles import Operation
from memforest_core.errors import InvalidInput
from memforest_core.service.explorer.rows import ExplorerRows
from memforest_core.service.explorer.visits import Moved, Outcome, Shown, Visit, href, known

FACTS = 100
TURNS = 100
"""Of one fact, at most."""
CHOICES = {"yes": True, "no": False}


def facts(visit: Visit) -> Outcome:
    """Facts, the one that was learned last first."""
    owner, cursor = visit.owner("facts"), visit.parameter("cursor")
    about, attribute, pinned = visit.parameter("about"), visit.parameter("attribute"), visit.parameter("pinned")
    superseded = visit.parameter("superseded")
    found = known(
        owner,
        visit.memory.facts(
            owner,
            about=about,
            attribute=attribute,
            pinned=CHOICES.get(pinned or ""),
            superseded=CHOICES.get(superseded or ""),
            limit=FACTS,
            cursor=cursor,
        ),
    )
    chosen = {"about": about, "attribute": attribute, "pinned": pinned, "superseded": superseded}
    more = href("/facts", owner=owner, cursor=found.cursor, **chosen) if found.cursor else None
    return Shown("facts.html", {"owner": owner, "tab": "/facts", "facts": found, "chosen": chosen, "more": more})


def fact(visit: Visit) -> Outcome:
    """One fact, the turns that say it, and what can be done about it."""
    owner = visit.owner("facts")
    reading, tenant = visit.memory.services.reading, visit.caller.tenant
    found = reading.fact(tenant, owner, visit.needed("fact"))
    newer = None if found.superseded_by is None else reading.fact(tenant, owner, found.superseded_by)
    with ExplorerRows.opened(visit.memory.services.engine, tenant) as rows:
        said = rows.saying(found.id, TURNS)
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
