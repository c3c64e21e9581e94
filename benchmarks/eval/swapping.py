"""The same dialogues with their two speakers exchanged: what is tuned to who said what falls apart on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.eval.dataset import Conversation, Dataset, Question, Session
from benchmarks.eval.transform import replacing


def swapped(data: Dataset) -> Dataset:
    """All dialogues with the names of their two speakers exchanged, in turns, questions and answers.

    Each turn is the other person's then, and a question about one asks about the other, so the same turns hold the
    answer. What the owner says stays the owner's. Conversations of more or fewer people than two stay as they are, and
    so do nicknames and words such as "she".
    """
    return tuple(_conversation(one) for one in data)


def _conversation(one: Conversation) -> Conversation:
    people = list(dict.fromkeys(turn.speaker for _, turn in one.turns() if turn.role == "user"))
    if len(people) != 2:
        return one
    other = dict(zip(people, reversed(people), strict=True))
    first = {name.split()[0]: whole.split()[0] for name, whole in other.items()}
    names = replacing(other | first, {name.lower() for name in first})
    return replace(
        one,
        sessions=tuple(_session(session, other, names) for session in one.sessions),
        questions=tuple(_question(question, names) for question in one.questions),
    )


def _session(session: Session, other: dict[str, str], names: Callable[[str], str]) -> Session:
    turns = (
        replace(turn, speaker=other.get(turn.speaker, turn.speaker), text=names(turn.text)) for turn in session.turns
    )
    return replace(session, turns=tuple(turns))


def _question(question: Question, names: Callable[[str], str]) -> Question:
    return replace(
        question,
        text=names(question.text),
        answer=names(question.answer),
        excerpts={turn: names(text) for turn, text in question.excerpts.items()},
    )
