"""The wordings that set a state (``words/wordings.txt``), and what a sentence is: a statement, how certain, a denial, a
correction, chat, a question or a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.english_text import compiled, pattern, wordings
from memforest_core.ingest.extract.offline.kinds import Reader, Reading

OF_THE_SPEAKER = frozenset({"preference", "activity", "possession"})
"""Attributes that are read of the speaker alone: others say too little of them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    attribute: str
    """Empty where the wording names it."""
    wording: re.Pattern[str]
    reader: Reader | None
    """None where the wording has the value, or there is none."""
    marks: frozenset[str]
    tail: re.Pattern[str] | None
    """What has to follow the value, where that is not just the end of a clause."""

    change: Change
    """What it does to the state."""
    modality: Modality
    """Whether it is a plan."""
    polarity: Polarity
    """Whether the wording denies by itself ("hates")."""


@cache
def rules(*, clause: bool = False) -> tuple[Rule, ...]:
    """The wordings that follow a subject, or those that are a whole ``clause``, in the order of the table."""
    return tuple(rule for rule in _table() if ("clause" in rule.marks) is clause)


def _table() -> Iterator[Rule]:
    for line in wordings():
        if " ; " in line:
            attribute, wording, reader, marks, tail = [*line.split(" ; "), "", "", ""][:5]
            given = frozenset(marks.strip("- ").split(","))
            yield Rule(
                attribute.strip("-"),
                compiled(wording),
                _reader(reader.strip()),
                given,
                compiled(tail) if tail else None,
                next((Change(mark) for mark in ("start", "switch", "stop") if mark in given), Change.NONE),
                Modality.PLANNED if "plan" in given else Modality.ASSERTED,
                Polarity.NEGATIVE if "denied" in given else Polarity.POSITIVE,
            )


def _reader(written: str) -> Reader | None:
    if written in {"", "-"}:
        return None
    if written.startswith("= "):
        value = written.removeprefix("= ")
        return lambda text, at: Reading(value, at)
    own: Reader | None = kinds.READERS.get(written)
    return own or kinds.listed(*written.split(" + "))


_SELF = re.compile(r"\b(?:I|i|my|My|our|Our|we|We)\b")
_STRIPPED = " \t\n.!,;:~*-—…\"'”“()[]😀😂😊🙂👍❤️🎉🙏"


def without_lead_in(sentence: str) -> str:
    """The sentence after greetings and fillers, or as it was if nothing else is in it."""
    found = pattern("LEADIN").match(sentence)
    rest = sentence[found.end() :] if found else sentence
    return rest if len(rest.split()) >= 2 else sentence


def is_question(sentence: str) -> bool:
    """Whether a sentence is a question, with or without its mark."""
    return sentence.rstrip(" \"'”)!").endswith(("?", "？")) or bool(pattern("QUESTION").match(sentence))


def statement_in_question(sentence: str) -> str:
    """The statement about the speaker in front of a question, or after it, or nothing."""
    found = pattern("SAIDTHENQUESTION").match(sentence) or pattern("QUESTIONTHENSAID").fullmatch(sentence)
    if found is None:
        return ""
    said = found["said"].strip()
    is_statement = _SELF.search(said) and len(said.split()) >= 4 and not pattern("QUESTION").match(said)
    return said if is_statement else ""


def is_chat(sentence: str) -> bool:
    """Whether a sentence only continues the conversation."""
    bare = sentence.strip(_STRIPPED)
    if not bare or not any(char.isalnum() for char in bare):
        return True
    if len(bare) > 120:
        return False
    if pattern("CHAT").fullmatch(bare):
        return True
    concrete = any(char.isdigit() for char in bare) or any(char.isupper() for char in bare[1:])
    if pattern("REACTION").fullmatch(bare) and not concrete:
        return True
    return len(bare.split()) == 1 and not concrete and bare.isascii()


def is_request(sentence: str) -> bool:
    """Whether a sentence requests something to be done."""
    return bool(pattern("REQUEST").match(sentence))


def is_about_speaker(sentence: str) -> bool:
    """Whether a sentence says I, my, we or our."""
    return bool(_SELF.search(sentence))


def accepts(text: str) -> bool:
    """Whether a user's turn takes up, or requests to store, what was said just before."""
    return bool(pattern("ACCEPTS").search(text[:2_000].strip()))


_SUPPOSED = re.compile(r"^(?:Maybe|Perhaps|If|Possibly|Imagine)\b")
_CLAUSE = re.compile(r"[.;!?]|\s+-+\s+")


def modality_of(sentence: str) -> Modality:
    """Hearsay before hypothetical before planned; else asserted."""
    if pattern("HEARSAY").search(sentence) or sentence.startswith(("Apparently", "According to")):
        return Modality.HEARSAY
    if pattern("HYPOTHETICAL").search(sentence) or _SUPPOSED.match(sentence):
        return Modality.HYPOTHETICAL
    return Modality.PLANNED if pattern("FUTURE").search(sentence) else Modality.ASSERTED


def is_asserted(sentence: str, start: int, end: int) -> bool:
    """Whether the speaker says a clause in earnest: not supposed, reported, quoted or taken back."""
    request = pattern("TOREMEMBER").search(sentence, 0, start)
    if request is not None and not pattern("REPORTED").search(sentence[: request.start()]):
        # A condition is one of the request, not of what is to be remembered.
        sentence, start, end = sentence[start:], 0, end - start
    if (
        pattern("SUPPOSING").match(sentence)
        or pattern("TAKENBACK").search(sentence, end)
        or sentence.rstrip(" \"'”)").endswith("?")
    ):
        return False
    before = sentence[:start]
    clause = before[max((found.end() for found in _CLAUSE.finditer(before)), default=0) :] + " "
    return not any(
        (pattern("SUPPOSING").match(clause), pattern("REPORTED").search(before), pattern("CONDITION").search(before))
    )


def polarity_of(sentence: str) -> Polarity:
    """Whether the sentence denies; "Denver, not Boston" asserts Denver."""
    rest = pattern("NOTBUT").sub("", pattern("IDIOMS").sub("", sentence))
    return Polarity.NEGATIVE if pattern("NEGATIVE").search(rest) else Polarity.POSITIVE


def corrects(sentence: str) -> bool:
    """Whether the sentence takes back something said before."""
    return pattern("CORRECTION").search(sentence) is not None


def value_denied(sentence: str) -> str:
    """What "X, not Y" takes back: Y, or nothing."""
    found = pattern("NOTBUT").search(sentence)
    return found["old"] if found else ""
