"""English by its words (``words/*.txt``): which words a kind has, which are names, whether the rules can read a text
(else it is stored as it was said), and its life domain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.text import NUMBER_WORDS, STOP_WORDS, sentences


@cache
def lists() -> Mapping[str, list[str]]:
    """The words of each kind, as they are written."""
    folder = files("memforest_core.ingest.extract.offline").joinpath("words")
    found: dict[str, list[str]] = {}
    for line in folder.joinpath("kinds.txt").read_text(encoding="utf-8").splitlines():
        name, colon, words = line.partition(": ")
        if colon and not line.startswith("#"):
            found[name] = [word.strip() for word in words.split(", ")]
    lines = folder.joinpath("places.txt").read_text(encoding="utf-8").splitlines()
    listed = (line.split(", ") for line in lines if not line.startswith("#"))
    return found | {"place": [name.strip() for names in listed for name in names]}


@cache
def _kinds() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(word.casefold() for word in words) for name, words in lists().items()}


def is_kind(phrase: str, *names: str) -> bool:
    """Whether a phrase, or what it is the plural of, is listed as one of these kinds."""
    phrase = phrase.casefold().replace("’", "'")
    one = phrase[:-1] if phrase.endswith("s") else phrase
    return any(phrase in _kinds()[name] or one in _kinds()[name] for name in names)


def alternatives(*names: str) -> str:
    """The words of kinds as alternatives of a regular expression, the longest first."""
    listed = {word for name in names for word in _kinds()[name]}
    return "|".join(re.escape(word) for word in sorted(listed, key=lambda word: (-len(word), word)))


def words_of(*names: str) -> frozenset[str]:
    """The words of kinds, casefolded."""
    return frozenset().union(*(_kinds()[name] for name in names))


def is_listed(word: str, *names: str) -> bool:
    """Whether a word is listed as one of these kinds, as it is."""
    return any(word.casefold() in _kinds()[name] for name in names)


@cache
def wordings() -> tuple[str, ...]:
    """The lines of the table of wordings."""
    table = files("memforest_core.ingest.extract.offline").joinpath("words/wordings.txt").read_text(encoding="utf-8")
    return tuple(line for line in table.splitlines() if line and not line.startswith("#"))


@cache
def _macros() -> dict[str, str]:
    macros: dict[str, str] = {}
    for line in wordings():
        name, equals, written = line.partition(" = ")
        if equals and name.isupper():
            macros[name] = _pattern(written, macros)
    return macros


def _pattern(written: str, macros: Mapping[str, str]) -> str:
    """A regular expression as the table has it, in the form that ``re`` reads."""
    plain = re.sub(r"(?<!\\)\((?!\?)", "(?:", written).replace(" ", r"\s+")
    named = re.sub(r"\{([A-Z]+)\}", lambda found: macros[found[1]], plain)
    return re.sub(r"\{kind:([a-z]+)\}", lambda found: alternatives(found[1]), named)


def compiled(written: str) -> re.Pattern[str]:
    """The pattern of a wording as the table has it."""
    return re.compile(_pattern(written, _macros()), re.IGNORECASE)


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern of the table by its name."""
    return re.compile(_macros()[name], re.IGNORECASE)


NOT_NAMES = STOP_WORDS | words_of("calendar", "opener")
_UPPER = "A-ZÀ-ÖØ-ÞŁŚŠŽČĆĐĞŞİΑ-ΩА-Я"
NAME_WORD = rf"[{_UPPER}][\w&’'.-]*[\w]|[{_UPPER}]"
_NAMES = re.compile(
    rf"(?<![\w@#/])(?:{NAME_WORD})(?:(?:\s+(?:of|de|la|van|von|del|da)(?=\s+[{_UPPER}]))?"
    rf"\s+(?:{NAME_WORD}|\d{{1,4}}(?![\w:%.,/])))*"
)
_FORMED = re.compile(r"\w{2,}(?:ly|ing|tion|sion|ness|ment|ity|ship|ance|ence|ency|ful|ism|n['’]t)$")
_AFTER_NAME = pattern("AFTERNAME")
_NUMBERED = pattern("NUMBERED")
"""What follows a number that belongs to the name before it: "Boeing 747 is", not "Rome 3 hours ago"."""
_PAYING = pattern("PAYING")


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
    if not words or is_listed(words[0], "acronym"):
        return ""
    if len(words) == 1:
        if len(words[0]) < 2:
            return ""
        possessed = re.search(r"['’]s?$", name) is not None
        if opening and not (possessed or _AFTER_NAME.match(sentence, end)):
            return ""
        if opening and (_is_seldom_a_name(words[0]) or _FORMED.match(words[0])):
            return ""
    return " ".join(re.sub(r"['’]s$", "", word) for word in words)[:200]


def _opens(word: str) -> bool:
    return is_listed(word, "interjection") or word.endswith(("ly", "ing"))


def _is_common(word: str) -> bool:
    folded = word.casefold().replace("’", "'").rstrip(".,")
    return folded in NOT_NAMES or folded.split("'")[0] in NOT_NAMES or folded.endswith("n't")


def _is_seldom_a_name(word: str) -> bool:
    """Whether a word with a capital letter rather begins a sentence."""
    return is_listed(word, "interjection", "common word") or word.casefold() in NUMBER_WORDS


_OF_ATTRIBUTE = {
    "residence": "home/moving",
    "former residence": "home/moving",
    "job": "work/job",
    "status": "work/job",
    "weight": "health/fitness",
    "allergy": "health/fitness",
    "diet": "food",
    "relationship": "family",
}
_SCENE = "scene "


@cache
def _scenes() -> Mapping[str, frozenset[str]]:
    """The words that tell each scene."""
    return {name.removeprefix(_SCENE): words for name, words in _kinds().items() if name.startswith(_SCENE)}


def scene_of(sentence: str, attribute: str) -> str:
    """A label ``domain`` or ``domain/detail``, or empty when no word decides."""
    if attribute in _OF_ATTRIBUTE:
        return _OF_ATTRIBUTE[attribute]
    said = re.findall(r"[a-z]+", sentence.lower())
    votes = {scene: sum(word in words for word in said) for scene, words in _scenes().items()}
    best = max(votes, key=votes.__getitem__)  # the first one of several
    return best if votes[best] else ""


_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE_CHARS = 400
_MIN_LATIN = 0.7


def is_english(text: str) -> bool:
    """Whether the rules can read a text, judged by its letters and function words."""
    sample = text[:_SAMPLE_CHARS]
    letters = [char for char in sample if char.isalpha()]
    if sum(char < "\u0250" for char in letters) < _MIN_LATIN * len(letters):
        return False
    words = [word.lower() for word in _WORD.findall(sample)]
    foreign_words, shared = words_of("foreign"), words_of("of several languages")
    foreign = sum(word in foreign_words for word in words)
    own = foreign < 2 or foreign <= sum(word in STOP_WORDS and word not in shared for word in words)
    return own and language_of(sample) == ENGLISH


def packed(text: str, limit: int) -> Iterator[str]:
    """Consecutive sentences joined into verbatim parts of about ``limit`` characters."""
    start = at = 0
    for sentence in sentences(text):
        end = text.find(sentence, at) + len(sentence)
        if at > start and end - start > limit:
            yield text[start:at].strip()
            start = at
        at = max(at, end)
    yield text[start:].strip()
