"""Reads what a window is made from, in one transaction and a bounded number of statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from memforest_core.assistant.conversation_window.arranging import untold
from memforest_core.assistant.conversation_window.records import Loaded, StoredSummary, TreeSummary, WindowHead
from memforest_core.assistant.conversation_window.rows import Reference, WindowRows, summary_of_tree
from memforest_core.domain.ids import FactId, ForestId, NodeId, SessionId, TreeKind, session_id, tree_id
from memforest_core.domain.turns import LATEST_SESSION
from memforest_core.errors import NotFound
from memforest_core.store.owners import ForestRef

MAX_EXPANDED = 64
"""Nodes of one level of a tree that are looked into, the last ones: where more are not clean, turns stand for them."""


def window_head(rows: WindowRows, forest: ForestId, owner: str, name: str) -> WindowHead | str:
    """The session; of the one that runs and has no turn yet its id, "" when there is none. Raises NotFound."""
    latest = rows.latest(forest) if name == LATEST_SESSION else name
    if latest is None:
        return ""
    head = rows.head(forest, latest)
    if head is None and name != LATEST_SESSION and rows.latest(forest) != name:
        raise NotFound(f"Owner {owner!r:.80} has no session {name!r:.80}.")
    return latest if head is None else head


def load(
    rows: WindowRows,
    forest: ForestRef,
    head: WindowHead,
    *,
    last_turns: int,
    most: int,
    grows: Callable[[StoredSummary], bool],
) -> Loaded:
    """What the window of a session is made from, with its last ``last_turns`` turns word for word.

    ``most`` turns gather before they are compacted; ``grows`` says whether the next summary is made from a stored one.
    """
    stored, end = rows.stored(head.id), max(0, head.turns - last_turns)
    begin = stored.turns if stored is not None and grows(stored) else 0
    digest = rows.digest(head.id, begin, end) if head.turns - begin >= most else b""
    root = rows.root(tree_id(forest.id, TreeKind.SESSION, str(head.id)))
    done = 0 if stored is None else stored.turns
    whole = summaries(rows, root, 0, end)
    later = summaries(rows, root, done, end) if done else whole
    waiting = rows.waiting(head.id, end)
    bare = {*untold(0, end, whole, waiting), *untold(done, end, later, waiting)}
    tree: Sequence[TreeSummary] | None = whole
    if begin and len(bare) > most:
        # The tree lags behind; only what the stored summary does not stand for is needed word for word.
        tree, bare = None, {at for at in bare if at >= done}
    ends = {at for each in (*whole, *later) for at in (each.first, each.last)} | {0, max(0, done - 1)}
    return Loaded(
        forest=forest.id,
        frozen=forest.frozen,
        head=head,
        stored=stored,
        end=end,
        begin=begin,
        digest=digest,
        tree=tree,
        later=later,
        waiting=waiting,
        turns={turn.ordinal: turn for turn in rows.turns(head.id, bare, end)},
        ids=rows.ids(head.id, ends),
        items=rows.items(head.id),
    )


def summaries(rows: WindowRows, root: NodeId | None, start: int, end: int) -> list[TreeSummary]:
    """The highest clean nodes whose turns all lie from ``start`` to before ``end``, in order."""
    found: list[TreeSummary] = []
    spans = [] if root is None or start >= end else rows.span(root)
    while spans:
        open_ = []
        for span in spans:
            if span.last < start or span.first >= end:
                continue
            if span.clean and span.text and start <= span.first and span.last < end:
                found.append(summary_of_tree(span))
            elif span.level > 1:
                open_.append(span.id)
        spans = rows.spans_below(open_[-MAX_EXPANDED:]) if open_ else []
    return sorted(found, key=lambda each: each.first)


def references(rows: WindowRows, forest: ForestId, given: Sequence[UUID | tuple[str, str]]) -> list[Reference]:
    """What is there of what was given, in its order."""
    facts = rows.facts(forest, [each for each in given if isinstance(each, UUID)])
    turns: dict[str, list[str]] = {}
    for each in given:
        if not isinstance(each, UUID):
            turns.setdefault(each[0], []).append(each[1])
    positions: dict[tuple[str, str], tuple[SessionId, int]] = {}
    for session, ids in turns.items():
        own = session_id(forest, session)
        positions |= {(session, turn): (own, at) for turn, at in rows.ordinals(own, ids).items()}
    found: list[Reference] = []
    for each in given:
        if isinstance(each, UUID):
            found += [Reference(FactId(each))] if each in facts else []
        elif each in positions:
            found.append(Reference(None, *positions[each]))
    return found
