"""The names in a sentence."""

from __future__ import annotations

import re

from memforest_core.domain.text import NUMBER_WORDS, STOP_WORDS

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
_INTERJECTIONS = """alright aw aww awesome bet bless bravo cheers congrats cool definitely exactly haha lovely nice
    nope omg plus sweet totally woah woohoo woo wow yay yep yup"""
_PLAIN = """account art baby balance basketball beach beauty black blue board book books breakfast bring brown busy
    cars change city class clay coffee color colour community crazy creative dad dance determined difficult dinner
    doctors dogs eat epic everyday exams exercise exist family fantasy feel finals fingers fitness food football
    friends gather gift give gold green guitar health heart help hiking home hope house injury inside join keep kids
    laughter lesson lessons life light love lunch made make meal men mental met mine mom money movie much music name
    nature nights nudge open outside painting parents peace perfect pets photo piano pictures place plants positive
    pottery progress pure quality rain reading red relax running school seeing shadow share sharing simple sleep
    small snow soccer songs special start stay stories strength stress summer sun super support swimming take talk
    teamwork things time together tons tough travel trees try unconditional used users video visual walk water way
    weather white wind winter women yellow yoga"""
_OPENING = frozenset(_INTERJECTIONS.split())
_COMMON = _OPENING | frozenset(_PLAIN.split()) | NUMBER_WORDS.keys()
"""Words that are seldom names: with a capital letter they begin a sentence."""
_FORMED = re.compile(r"\w{2,}(?:ly|ing|tion|sion|ness|ment|ity|ship|ance|ence|ency|ful|ism|n['’]t)$")
_AFTER_NAME = re.compile(
    r"(?:['’]s\b|,\s+(?:my|our|who)\b|\s+(?:and\s+(?:I|my|our|[A-Z]\w+)|(?:just|really|also|never|always)\s+\w+(?:s|ed)|is|was"
    r"|has|had|will|did|does|would|told|who|says|loves?|likes|hates|wants|needs|works|lives|thinks?|knows|plays|makes|goes"
    r"|comes|gets|takes|gives|keeps|said|went|got|came|made|took|bought|left|quit|began|became|sent|gave|[a-z]{2,}ed"
    r"|[a-z]{3,}(?:es|[a-rt-z]s)(?=\s+(?:a|an|the|my|our|her|his|their|to|in|at|for|with|on|me|us)\b)|project)\b)"
)
_NUMBERED = re.compile(
    r"\s*(?:$|[.,;:!?)]|(?:is|was|are|has|had|will|and|or|but|to|at|in|on|from|by|with|for|that|which)\b)"
)
"""What follows a number that belongs to the name before it: "Boeing 747 is", not "Rome 3 hours ago"."""
_PAYING = re.compile(
    r"\b(?:pa(?:y|ys|id|ying)|g(?:ave|iv(?:e|es|en|ing))|owe[sd]?|sen[dt]s?|len[dt]s?|charged?|offer(?:s|ed)?|cost|beat|tip"
    r"|tipped|handed|wired?)\s+$"
)


def names_in(sentence: str) -> tuple[str, ...]:
    """The capitalized names of a sentence, in order and once; no days, months or mere openers."""
    letters = [char for char in sentence if char.isalpha()]
    if len(letters) > 12 and sum(char.isupper() for char in letters) > 0.6 * len(letters):
        return ()
    found: dict[str, None] = {}
    for match in _NAMES.finditer(sentence):
        name, end = match.group(), match.end()
        head, _, number = name.rpartition(" ")
        if number.isdigit() and (
            len(number) == 4 or not _NUMBERED.match(sentence, end) or _PAYING.search(sentence[: match.start()])
        ):
            name, end = head.rstrip(), match.start() + len(head)
        name = _trimmed(name, sentence, match.start(), end)
        if name:
            found[name] = None
    return tuple(found)


def _trimmed(name: str, sentence: str, start: int, end: int) -> str:
    words = re.sub(r"['’]s?$", "", name).rstrip(".").split()
    before = sentence[max(0, start - 8) : start].rstrip(" \"'“‘(")
    opening = not before or before[-1] in ".!?:"
    while words and (_is_common(words[0]) or (opening and len(words) > 1 and _opens(words[0]))):
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
        if opening and (words[0].casefold() in _COMMON or _FORMED.match(words[0])):
            return ""
    return " ".join(re.sub(r"['’]s$", "", word) for word in words)[:200]


def _opens(word: str) -> bool:
    return word.casefold() in _OPENING or word.endswith(("ly", "ing"))


def _is_common(word: str) -> bool:
    folded = word.casefold().replace("’", "'").rstrip(".,")
    return folded in NOT_NAMES or folded.split("'")[0] in NOT_NAMES or folded.endswith("n't")
