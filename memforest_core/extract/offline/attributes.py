"""States that plain sentences set: residence, job, age, pets, preferences and their like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.extract.answer import MAX_SHORT_CHARS
from memforest_core.extract.offline.rules import FAVOURITE, MEASURED, PROJECT, RELATIVE_NAMED, RULES, SWITCHED, Rule
from memforest_core.extract.offline.subjects import subject_before


@dataclass(frozen=True, slots=True)
class State:
    """One attribute a sentence sets, and the piece of the sentence that sets it."""

    subject: str
    attribute: str
    value: str
    previous_value: str
    change: Change
    start: int
    end: int
    polarity: Polarity | None = None
    """What the rule itself says; None leaves it to the sentence."""
    modality: Modality | None = None


_IDLE_WORDS = "it that this them him her you me us one more most tears fear peace someone something things"
_IDLE = frozenset(_IDLE_WORDS.split())
_MIN_VALUE = 2


def _value(raw: str) -> str:
    words = raw.strip(" ,.-'’").split()
    if words and words[0][:1].isupper():
        kept = [words[0]]
        for position, word in enumerate(words[1:], start=1):
            following = words[position + 1][:1].isupper() if position + 1 < len(words) else False
            if (word in {"of", "de", "la", "the", "at"} and following) or not word[:1].islower():
                kept.append(word)
            else:
                break
        words = kept
    return " ".join(words)[:MAX_SHORT_CHARS].strip(" ,")


def _special(sentence: str, speaker: str) -> Iterator[State]:
    """Rules whose attribute or subject is itself in the sentence."""
    for pattern in (MEASURED, FAVOURITE, RELATIVE_NAMED, PROJECT, SWITCHED):
        found = pattern.search(sentence)
        if found is None:
            continue
        groups = found.groupdict()
        value = found["value"].strip(" .,") if pattern in (PROJECT, MEASURED) else _value(found["value"])
        if not value or value.casefold() in _IDLE:
            continue
        what = groups.get("what") or ""
        yield State(
            subject=what if pattern is PROJECT else _special_subject(pattern, sentence, found, speaker),
            attribute="status" if pattern is PROJECT else what.casefold().replace("favourite", "favorite"),
            value=value,
            previous_value=_value(groups.get("prev") or ""),
            change=Change.SWITCH if pattern is SWITCHED else Change.NONE,
            start=found.start(),
            end=found.end(),
        )


def _special_subject(pattern: re.Pattern[str], sentence: str, found: re.Match[str], speaker: str) -> str:
    if pattern is SWITCHED:
        return subject_before(sentence, found.start(), speaker)
    if pattern is FAVOURITE:
        owner = re.search(r"([A-Z]\w+)['’]s\s+$", sentence[: found.start()])
        return owner[1] if owner else speaker
    return speaker


def _matched(rule: Rule, sentence: str, speaker: str) -> Iterator[State]:
    for found in rule.pattern.finditer(sentence):
        groups = found.groupdict()
        value = _value(groups["value"] or "")
        if value.casefold() in _IDLE or (len(value) < _MIN_VALUE and rule.change is not Change.STOP):
            continue
        yield State(
            subject=subject_before(sentence, found.start(), speaker),
            attribute=rule.attribute,
            value=value,
            previous_value=_value(groups.get("prev") or groups.get("prev2") or ""),
            change=rule.change,
            polarity=rule.polarity,
            modality=rule.modality,
            start=found.start(),
            end=found.end(),
        )


def states_in(sentence: str, speaker: str) -> list[State]:
    """The states a sentence sets, first the one it opens with; overlapping matches count once."""
    found: list[State] = []
    candidates = list(_special(sentence, speaker))
    for rule in RULES:
        candidates.extend(_matched(rule, sentence, speaker))
    for state in candidates:
        if not any(state.start < kept.end and kept.start < state.end for kept in found):
            found.append(state)
    return sorted(found, key=lambda state: state.start)
