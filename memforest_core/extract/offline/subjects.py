"""The names in a sentence."""

from __future__ import annotations

import re

from memforest_core.domain.text import STOP_WORDS

_UPPER = "A-ZÀ-ÖØ-ÞŁŚŠŽČĆĐĞŞİΑ-ΩА-Я"
NAME_WORD = rf"[{_UPPER}][\w&’'.-]*[\w]|[{_UPPER}]"
_NAMES = re.compile(
    rf"(?<![\w@#/])(?:{NAME_WORD})(?:(?:\s+(?:of|de|la|van|von|del|da)(?=\s+[{_UPPER}]))?"
    rf"\s+(?:{NAME_WORD}|\d{{1,4}}(?![\w:%.,/])))*"
)
_CALENDAR = """monday tuesday wednesday thursday friday saturday sunday january february march april
    may june july august september october november december mon tue tues wed thu thur fri sat sun
    jan feb mar apr jun jul aug sep sept oct nov dec christmas easter am pm"""
_OPENERS = """actually also although apparently anyway back because before being besides correction
    congratulations eventually every everyone everything finally first fortunately funny
    getting glad going good great guess happy hello hey hi honestly however huh instead it's i'm
    i've i'll i'd just last lately later let lol looking lots luckily many maybe meanwhile more most
    my never next
    no not nothing now oh ok okay one our perhaps people please probably quick really recently
    remember right second since sorry still someone something sometimes soon speaking sure thanks
    thank that's the then there's these they're this though thought till today tomorrow tonight
    turns two unfortunately until usually wait we've we're we'll well what's what while wish work
    working wow yeah yes yesterday yet you're another any anyone both each either even few
    half three four five several somebody moved got started went bought planning heading life
    everybody"""
NOT_NAMES = STOP_WORDS | frozenset(_CALENDAR.split()) | frozenset(_OPENERS.split())
_ACRONYM_WORDS = "ok lol omg btw fyi tbh imo idk asap ps nb faq diy eta tv wtf"
_ACRONYMS = frozenset(_ACRONYM_WORDS.split())
_AFTER_NAME = re.compile(
    r"(?:['’]s\b|,\s+(?:my|our|who)\b|\s+(?:is|was|has|had|will|can|and|did|does|would|just|told|said|also|who|loves?"
    r"|really|[a-z]{2,}(?:es|ed|s)|went|got|came|made|took|bought|left|quit|began|became|sent|gave"
    r"|thinks?|never|always|project|with)\b)"
)


def names_in(sentence: str) -> tuple[str, ...]:
    """The capitalized names of a sentence, in order and once; no days, months or mere openers."""
    letters = [char for char in sentence if char.isalpha()]
    if len(letters) > 12 and sum(char.isupper() for char in letters) > 0.6 * len(letters):
        return ()
    found: dict[str, None] = {}
    for match in _NAMES.finditer(sentence):
        name = _trimmed(match.group(), sentence, match.start(), match.end())
        if name:
            found[name] = None
    return tuple(found)


def _trimmed(name: str, sentence: str, start: int, end: int) -> str:
    words = re.sub(r"['’]s?$", "", name).rstrip(".").split()
    before = sentence[max(0, start - 8) : start].rstrip(" \"'“‘(")
    opening = not before or before[-1] in ".!?:"
    while words and _is_common(words[0]):
        words, opening = words[1:], False
    while words and (_is_common(words[-1]) or (words[-1].isdigit() and len(words) == 1)):
        words = words[:-1]
    if not words or words[0].casefold() in _ACRONYMS:
        return ""
    if len(words) == 1:
        if len(words[0]) < 2:
            return ""
        possessed = re.search(r"['’]s?$", name) is not None
        if opening and not (possessed or _AFTER_NAME.match(sentence, end)):
            return ""
        if opening and words[0].casefold().endswith(("ly", "ing")):
            return ""
    return " ".join(re.sub(r"['’]s$", "", word) for word in words)[:200]


def _is_common(word: str) -> bool:
    folded = word.casefold().replace("’", "'").rstrip(".,")
    return folded in NOT_NAMES or folded.split("'")[0] in NOT_NAMES
