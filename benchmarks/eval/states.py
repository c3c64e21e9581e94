"""Labelled current states and pairs of sentences, written for this project, and how a memory's states are scored.

Half of the labels are open; nobody reads the locked half by accident, and a run over it prints figures only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.eval.lives import unlocked
from benchmarks.harness import Row

DATA = Path(__file__).parent / "data" / "states.json"
LOCKED = DATA.with_suffix(".locked")
ATTRIBUTES = frozenset(
    {"name", "age", "residence", "hometown", "job", "relationship", "pet", "diet", "allergy", "weight"}
    | {"preference", "possession", "activity"}
)
MOST_WORDS_MORE = 3
"""Words that a value may have in addition to those of a label."""
RIGHT = {"apart": "apart", "merge": "merged"}
"""The right outcome of the pairs of each label."""
_ARTICLE = re.compile(r"^(?:an?|the) ")
_DENIAL = re.compile(r"^(?:no|not) ")


def read(locked: bool) -> Any:
    """The items and pairs of the open or of the locked half."""
    if not locked:
        return json.loads(DATA.read_text(encoding="utf-8"))
    return unlocked(LOCKED)


@dataclass(frozen=True, slots=True)
class Stated:
    """One state that the memory gives as current, with the words that say it."""

    subject: str
    attribute: str
    value: str
    polarity: str = "positive"
    quote: str = ""
    said_at: str = ""

    def to_dict(self) -> dict[str, str]:
        """The state as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Label:
    """One state that is true; ``plain``: it is said plainly and has to be found."""

    subjects: tuple[str, ...]
    attribute: str
    values: tuple[str, ...]
    polarity: str
    plain: bool

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Label:
        """From the file's form."""
        subjects = (raw["subject"], *raw.get("also", ()))
        return cls(subjects, raw["attribute"], tuple(raw["accept"]), raw["polarity"], raw["plain"])

    def allows(self, stated: Stated) -> bool:
        """Whether a stated state is this one."""
        attribute, value, polarity = _compared(stated.attribute, stated.value, stated.polarity)
        mine = [_compared(self.attribute, accepted, self.polarity) for accepted in self.values]
        same = _subject(stated.subject) in {_subject(subject) for subject in self.subjects}
        return same and any(
            (attribute, polarity) == (name, sign) and says(value, accepted) for name, accepted, sign in mine
        )


@dataclass(frozen=True, slots=True)
class Score:
    """What was stated of one item, by whether a label allows it, and its plain labels, by whether they were found."""

    kind: str
    true: tuple[Stated, ...]
    false: tuple[Stated, ...]
    found: tuple[Label, ...]
    missed: tuple[Label, ...]
    unlabelled: int = 0

    def of(self, attribute: str) -> Score:
        """The part about one attribute."""
        true, false = ([one for one in ones if one.attribute == attribute] for ones in (self.true, self.false))
        found, missed = ([one for one in ones if one.attribute == attribute] for ones in (self.found, self.missed))
        return Score(self.kind, tuple(true), tuple(false), tuple(found), tuple(missed))


def normalized(value: str) -> str:
    """A value without case, punctuation and leading article."""
    words = re.sub(r"[^\w]+", " ", re.sub(r"['’]", "", value.casefold())).strip()
    return _ARTICLE.sub("", words)


def says(value: str, accepted: str) -> bool:
    """Whether a normalized value is an accepted one, or contains it and is at most three words longer."""
    longer = len(value.split()) - len(accepted.split())
    return bool(accepted) and f" {accepted} " in f" {value} " and longer <= MOST_WORDS_MORE


def _compared(attribute: str, value: str, polarity: str) -> tuple[str, str, str]:
    """Make one form of both: "no pork" is pork denied, whichever way it is written."""
    value = normalized(value)
    if polarity == "positive" and _DENIAL.match(value):
        value, polarity = _DENIAL.sub("", value), "negative"
    return attribute, value, polarity


def _subject(name: str) -> str:
    return " ".join(name.casefold().replace("’", "'").split())


def score(kind: str, labels: Sequence[Label], stated: Iterable[Stated]) -> Score:
    """Compare what is stated with the labels."""
    known = [one for one in stated if one.attribute in ATTRIBUTES]
    true = tuple(one for one in known if any(label.allows(one) for label in labels))
    false = tuple(one for one in known if one not in true)
    plain = [label for label in labels if label.plain]
    found = tuple(label for label in plain if any(label.allows(one) for one in true))
    return Score(kind, true, false, found, tuple(label for label in plain if label not in found))


def row(part: str, scores: Sequence[Score]) -> Row:
    """The figures of some items."""
    true, false = sum(len(one.true) for one in scores), sum(len(one.false) for one in scores)
    found, missed = sum(len(one.found) for one in scores), sum(len(one.missed) for one in scores)
    return {
        "part": part,
        "n": len(scores),
        "stated": true + false,
        "true": true,
        "false": false,
        "precision": round(true / (true + false), 3) if true + false else None,
        "plain": found + missed,
        "found": found,
        "coverage": round(found / (found + missed), 3) if found + missed else None,
        "unlabelled": sum(one.unlabelled for one in scores),
    }


def rows(scores: Sequence[Score]) -> Iterator[Row]:
    """A row for all items, one for each attribute and one for each kind."""
    yield row("all", scores)
    for attribute in sorted(ATTRIBUTES):
        parts = [one.of(attribute) for one in scores]
        yield row(attribute, [one for one in parts if one.true or one.false or one.found or one.missed])
    for kind in dict.fromkeys(sorted(one.kind for one in scores)):
        yield row(kind, [one for one in scores if one.kind == kind])


def outcome(first: frozenset[object], second: frozenset[object]) -> str:
    """Name what became of a pair: "merged" for the same facts, "apart" for facts of their own, else "neither"."""
    if not first or not second:
        return "neither"
    return "merged" if first == second else "neither" if first & second else "apart"


def pair_row(label: str, outcomes: Sequence[str]) -> Row:
    """The figures of the pairs of one label."""
    counted = {name: outcomes.count(name) for name in ("apart", "merged", "neither")}
    return {"part": f"pairs: {label}", "n": len(outcomes), **counted, "right": counted[RIGHT[label]]}
