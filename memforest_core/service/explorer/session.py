"""One session: its turns with the facts they gave, how each cell was extracted, and the calls that took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from memforest_core.domain.ids import TreeId
from memforest_core.domain.pages import to_cursor
from memforest_core.domain.turns import Turn
from memforest_core.observe.reading.records import StoredFact
from memforest_core.service.explorer.rows import ExplorerRows, SessionCell
from memforest_core.service.explorer.visits import Outcome, Shown, Visit, href, known

TURNS = 100
BEFORE = 4
"""Turns that are shown before the chosen one."""
FACTS = 1_000
CALLS = 50


def session(visit: Visit) -> Outcome:
    """A page of the session's turns."""
    owner, session_id, cursor = visit.owner(), visit.needed("session"), visit.parameter("cursor")
    memory, turn = visit.memory, visit.parameter("turn")
    if turn is not None:
        cursor = _page_with(visit, owner, session_id, turn)
    turns = known(owner, memory.turns(owner, session_id, limit=TURNS, cursor=cursor))
    facts = memory.facts(owner, session_id=session_id, limit=FACTS)
    calls = memory.calls(owner, session_id=session_id, limit=CALLS)
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
    return None if ordinal < TURNS else to_cursor([ordinal - BEFORE - 1])


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
