"""Dead letters: work that was given up, to be tried again or discarded."""

from __future__ import annotations

from memforest_core.service.explorer.visits import Moved, Outcome, Shown, Visit

MOST = 200


def letters(visit: Visit) -> Outcome:
    """What was given up, and why; one of them whole."""
    visit.check("dead.list", owner=visit.parameter("owner"))
    dead, chosen = visit.memory.dead, visit.parameter("id")
    detail = None
    if chosen is not None:
        visit.check("dead.show")
        detail = dead.show(chosen)
    return Shown(
        "dead.html", {"letters": dead.list(visit.parameter("owner"), limit=MOST), "detail": detail, "most": MOST}
    )


def retry(visit: Visit) -> Outcome:
    """Try one again, or all of them."""
    if visit.form.get("all"):
        visit.check("dead.retry_all")
        visit.memory.dead.retry_all()
    else:
        visit.check("dead.retry")
        visit.memory.dead.retry(visit.sent("id"))
    return Moved("/dead")


def discard(visit: Visit) -> Outcome:
    """Go on without one."""
    visit.check("dead.discard")
    visit.memory.dead.discard(visit.sent("id"))
    return Moved("/dead")
