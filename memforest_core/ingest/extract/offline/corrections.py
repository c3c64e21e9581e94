"""Corrections without a verb of their own: what they mean is the latest statement with a value of the same kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.text import normalize_name
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.clause_states import State
from memforest_core.ingest.extract.offline.kinds import Reader
from memforest_core.ingest.extract.offline.state_wordings import pattern

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
"""Their values have no shape of their own: no correction can be assigned to them."""
_CORRECTIONS = tuple(pattern(name) for name in ("MEANT", "STARRED", "ITIS", "NOTOLD", "OLDFIRST", "SORRYNEW"))
_KIDDING = pattern("KIDDING")
_DOUBT = pattern("DOUBT")
_OFF = pattern("OFF")
_GONE = pattern("GONE")
_SOLD = pattern("SOLD")


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
    for wording in _CORRECTIONS:
        found = wording.match(sentence)
        meant = (_corrected(found, each) for each in reversed(earlier)) if found else ()
        if (state := next(filter(None, meant), None)) is not None:
            return [state]
    if _KIDDING.search(sentence) or _DOUBT.match(sentence):
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
            clause = f"{earlier.subject} corrects: {earlier.attribute} {reading.value}, not {earlier.value}."
            modality = Modality.PLANNED if earlier.planned else Modality.ASSERTED
            return _of(earlier, reading.value, found.end(), clause, earlier.value, modality=modality)
    return None


def _meant(old: str, value: str) -> bool:
    one, other = normalize_name(old), normalize_name(value)
    return bool(one) and (one == other or f" {one} " in f" {other} ")


def _ended(earlier: Earlier, sentence: str, change: Change = Change.CORRECT) -> State:
    polarity = Polarity.POSITIVE if change is Change.STOP else Polarity.NEGATIVE
    return _of(earlier, earlier.value, len(sentence), "", "", change, polarity)


def _of(
    earlier: Earlier,
    value: str,
    end: int,
    clause: str,
    previous: str,
    change: Change = Change.CORRECT,
    polarity: Polarity = Polarity.POSITIVE,
    modality: Modality = Modality.ASSERTED,
) -> State:
    return State(earlier.subject, earlier.attribute, value, 0, end, clause, previous, change, polarity, modality)
