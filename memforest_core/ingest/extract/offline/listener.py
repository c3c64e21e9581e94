"""Resolves "you" to the owner, when somebody talks with the owner alone."""

from __future__ import annotations

import re

from memforest_core.domain.turns import Role
from memforest_core.domain.windows import Window, WindowTurn
from memforest_core.ingest.extract.offline.person import ADVERBS, verb_for_one

_YOU = re.compile(
    rf"^(?:You(?P<short>['’](?:re|ve|ll|d))?|(?P<your>Your))\b(?P<adverbs>(?:\s+(?:{ADVERBS})\b)*)"
    r"(?P<rest>\s+(?P<verb>[a-z]+(?:['’]t)?)(?!\w).*)$",
    re.DOTALL,
)
_SHORT = {"re": "is", "ve": "has", "ll": "will", "d": "would"}
_VERBS = {"are": "is", "were": "was", "aren't": "isn't", "weren't": "wasn't"}
_ADVICE_WORDS = "should could can may might must would will shall need know see guess mean think want"
_ADVICE = frozenset(_ADVICE_WORDS.split())
"""What "you" is followed by in advice, questions and phrases."""


def addressed(turn: WindowTurn, window: Window) -> str | None:
    """The name of the owner, when the owner and the speaker of a turn are the only people in the window; else None."""
    people = window.people
    owner = people.owner if people is not None else None
    speakers = {each.speaker for each in (*window.context, *window.turns) if each.role is Role.USER}
    others = speakers - {turn.speaker}
    if owner is None or len(others) != 1:
        return None
    listener = others.pop()
    if people is None or people.who(listener) is not owner or people.who(turn.speaker) is owner:
        return None
    return owner.written


def about_listener(sentence: str, name: str) -> str:
    """A statement that begins with "you" or "your", with the listener's name: "You are kind" says that Eva is kind."""
    found = _YOU.match(sentence)
    if found is None or sentence.rstrip().endswith(("?", "？")):
        return sentence
    if found["your"]:
        return f"{name}'s{found['adverbs']}{found['rest']}"
    if found["short"]:
        return f"{name} {_SHORT[found['short'][1:]]}{found['adverbs']}{found['rest']}"
    verb = found["verb"].replace("’", "'")
    if verb in _ADVICE:
        return sentence
    after = found["rest"].lstrip()[len(verb) :]
    return f"{name}{found['adverbs']} {_VERBS.get(verb, verb_for_one(verb))}{after}"
