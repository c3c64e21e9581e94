"""Corrections without a verb of their own: what they mean is the latest statement with a value of the same kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.text import normalize_name
from memforest_core.extract.offline import kinds
from memforest_core.extract.offline.attributes import State
from memforest_core.extract.offline.kinds import Reader

_READERS: dict[str, tuple[Reader, ...]] = {
    "residence": (kinds.place,),
    "hometown": (kinds.place,),
    "job": (kinds.occupation, kinds.employer),
    "age": (kinds.age,),
    "weight": (kinds.weight,),
    "name": (kinds.name,),
    "pet": (kinds.animal, kinds.own_animal),
    "pet name": (kinds.name,),
    "diet": (kinds.listed("diet"),),
    "allergy": (kinds.allergen,),
    "possession": (kinds.goods,),
}
_MEASURED: tuple[Reader, ...] = (kinds.amount, kinds.code)
_OTHER = frozenset({"preference", "activity", "relationship", "height", "status"})
"""Their values have no shape of their own: a correction can't be told to mean them."""
_SORRY = (
    r"(?:(?:sorry|oops|ups|whoops|wait|no|nah|ah|oh|hmm|correction|edit|my\s+bad|i\s+mean|actually|well|typo|ok"
    r"|thats?\s+wrong[\w ]*|that['’]s\s+wrong[\w ]*)[,.!:\s]+)"
)
_OLD = r"(?:,?\s+not\s+(?:in\s+|at\s+|an?\s+)?(?P<old>[\w .’'-]{1,40}?))"
_CORRECTIONS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_SORRY}*(?:(?:i\s+)?meant(?:\s+to\s+say)?|make\s+(?:that|it)|that\s+should\s+(?:be|say)"
        rf"|it\s+should\s+(?:be|say)|rather)\s+(?:in\s+|at\s+)?(?P<new>.+?){_OLD}?(?:\s+now)?\W*$",
        r"\*\s?(?P<new>[^*\s][^*]*?)\*?\W*$",
        rf"{_SORRY}*(?:it['’]?s|its|that['’]?s|i['’]m|we['’]re)\s+(?:in\s+|at\s+)?(?P<new>.+?)(?:{_OLD}|\s+(?:now"
        rf"|to\s+be\s+(?:exact|precise)))\b.*$",
        rf"{_SORRY}*(?:in\s+|at\s+)?(?P<new>[\w .’'-]{{1,40}}?){_OLD}\W*$",
        rf"{_SORRY}*not\s+(?:in\s+|at\s+)?(?P<old>[\w .’'-]{{1,40}}?),\s+(?:but\s+)?(?:in\s+|at\s+)?(?P<new>.+?)\W*$",
        rf"{_SORRY}+(?P<new>[\w .’'-]{{1,40}}?)(?:\s+to\s+be\s+(?:exact|precise))?\W*$",
    )
)
_KIDDING = re.compile(r"\b(?:just\s+)?(?:kidding|joking)\b|\bj/?k\b|\bthat\s+was\s+a\s+(?:joke|lie)\b", re.IGNORECASE)
_OFF = re.compile(
    r"\b(?:is|are|was|got|been)\s+(?:off|cancell?ed|called\s+off|postponed|withdrawn|rejected)\b|\bfell\s+through\b"
    r"|\bwithdrew\b|\bafter\s+all\b"
    r"|\bnot\s+happening\b|\bchanged\s+(?:my|his|her|their|our)\s+minds?\b|\bbacked\s+out\b|\b(?:won['’]t"
    r"|didn['’]t)\s+happen\b",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"\bput\s+(?P<name>[^\W\d_][\w-]*)\s+(?:to\s+sleep|down)\b|\b(?P<other>[^\W\d_][\w-]*)\s+(?:died|passed\s+away"
    r"|ran\s+away|is\s+gone|was\s+put\s+down)\b",
    re.IGNORECASE,
)
_SOLD = re.compile(r"\bsold\s+(?:it|him|her|them)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A state that the speaker set before, in turn ``turn``."""

    turn: int
    subject: str
    attribute: str
    value: str
    planned: bool


def corrected(sentence: str, turn: int, earlier: Sequence[Earlier]) -> list[State]:
    """The states that a sentence without a state of its own corrects or takes back; ``earlier`` in order of time."""
    if not earlier:
        return []
    for pattern in _CORRECTIONS:
        found = pattern.match(sentence)
        if found is not None:
            states = [_corrected(found, each) for each in reversed(earlier)]
            return [state for state in states if state is not None][:1]
    if _KIDDING.search(sentence):
        last = max(each.turn for each in earlier)
        return [_ended(each, sentence) for each in earlier if each.turn == last >= turn - 2]
    if _SOLD.search(sentence):
        return [
            _ended(each, sentence, Change.STOP) for each in reversed(earlier) if each.attribute in {"possession", "pet"}
        ][:1]
    if (gone := _GONE.search(sentence)) is not None:
        name = gone["name"] or gone["other"]
        return [
            _ended(each, sentence, Change.STOP)
            for each in earlier
            if each.attribute == "pet" and _meant(name, each.value)
        ][:1]
    if _OFF.search(sentence):
        return [_ended(each, sentence) for each in reversed(earlier) if each.planned][:1]
    return []


def _corrected(found: re.Match[str], earlier: Earlier) -> State | None:
    """What a correction makes of a state, if it can mean it."""
    old, new = found.groupdict().get("old") or "", found["new"].strip()
    if earlier.attribute in _OTHER or (old and not _meant(old, earlier.value)):
        return None
    for reader in _READERS.get(earlier.attribute, _MEASURED):
        reading = reader(new, 0)
        if (
            reading is not None
            and not new[reading.end :].strip(" .!")
            and reading.value.casefold() != earlier.value.casefold()
        ):
            return State(
                earlier.subject,
                earlier.attribute,
                reading.value,
                earlier.value,
                Change.CORRECT,
                Polarity.POSITIVE,
                Modality.PLANNED if earlier.planned else Modality.ASSERTED,
                0,
                found.end(),
                f"{earlier.subject} corrects: {earlier.attribute} {reading.value}, not {earlier.value}.",
            )
    return None


def _meant(old: str, value: str) -> bool:
    one, other = normalize_name(old), normalize_name(value)
    return bool(one) and (one == other or f" {one} " in f" {other} ")


def _ended(earlier: Earlier, sentence: str, change: Change = Change.CORRECT) -> State:
    polarity = Polarity.POSITIVE if change is Change.STOP else Polarity.NEGATIVE
    return State(
        earlier.subject, earlier.attribute, earlier.value, "", change, polarity, Modality.ASSERTED, 0, len(sentence), ""
    )  # fmt: skip
