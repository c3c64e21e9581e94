"""LongMemEval's questions (oracle, S and M), each with a history of dated chat sessions of its own.

The format's facts: https://github.com/xiaowu0162/LongMemEval (README, "Dataset Format"): a list of objects with
``question_id``, ``haystack_sessions`` (lists of turns with ``role``, ``content`` and, where the answer was said,
``has_answer``), and as many ``haystack_session_ids`` and ``haystack_dates``. Dates name no zone. A session can be in
the histories of several questions, with other dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memforest_core.domain.chat_messages import TurnInput
from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.items import (
    Converted,
    Item,
    Refused,
    Value,
    Wordless,
    bad_item,
    each,
    list_of,
    mapping_of,
    moment_of,
    name_of,
    turns_of,
)

_ROLES = ("user", "assistant")
_TIMES = ("%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m-%d")
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")


def convert(values: Iterable[Value | Refused], owner: str | None) -> Iterator[Item]:
    """A session for each of a question's history; the question is the owner, unless one is given for all."""
    return each(values, lambda value: _history(value, owner))


def _history(value: Value, owner: str | None) -> Iterator[Item]:
    question = mapping_of(value.content, "A question")
    id_ = name_of(question.get("question_id"))
    if id_ is None:
        raise bad_item("Add a question_id to the question.")
    histories = list_of(question.get("haystack_sessions"), "haystack_sessions")
    dates = list_of(question.get("haystack_dates"), "haystack_dates")
    names = list_of(question.get("haystack_session_ids") or [None] * len(histories), "haystack_session_ids")
    if not len(histories) == len(dates) == len(names):
        raise bad_item(f"The question has {len(histories)} sessions, {len(dates)} dates and {len(names)} session ids.")
    used: set[str] = set()
    for number, (given, date, turns) in enumerate(zip(names, dates, histories, strict=True), start=1):
        name = name_of(given) or f"session-{number}"
        while name in used:
            name += "+"
        used.add(name)
        # Histories of one owner share sessions, with other dates.
        session = name if owner is None else f"{id_}/{name}"
        try:
            yield _session(value.position, owner or id_, session, name, date, turns)
        except InvalidInput as error:
            yield Refused(value.position, error, session)


def _session(position: int, owner: str, session: str, name: str, date: object, raw: object) -> Item:
    turns: list[TurnInput] = []
    for number, one in enumerate(list_of(raw, "A session"), start=1):
        where = f"Turn {number}"
        turn = mapping_of(one, where)
        if turn.get("role") not in _ROLES:
            raise bad_item(f"{where}: the role must be user or assistant.")
        content = turn.get("content") or ""
        if not isinstance(content, str):
            raise bad_item(f"{where}: the content must be text.")
        turns += turns_of(
            str(turn["role"]),
            content,
            id=f"{name}:{number}",
            metadata={"has_answer": True} if turn.get("has_answer") else None,
        )
    if not turns:
        return Wordless(position, session)
    return Converted(
        position,
        owner,
        session,
        turns,
        moment_of(_WEEKDAY.sub(" ", str(date)), _TIMES, "2023/05/30 (Tue) 23:40").isoformat(),
    )
