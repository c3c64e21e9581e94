"""Text as the rest of the domain needs it: cleaned, normalized, cut into sentences and search terms."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import snowballstemmer

_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0903\u093a-\u094f"
    "\u0951-\u0957\u0962\u0963\u0980-\u0983\u09bc-\u09d7\u0a01-\u0a51\u0a70-\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57"
    "\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d57\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3"
)
"""Combining marks of living scripts: they belong to the word, though Python's \\w leaves them out."""
_PLAIN = rf"[^\W_]+(?:[{_MARKS}]+[^\W_]*)*"
_WORD = re.compile(rf"\d+(?:[.,:]\d+)+(?![^\W_])|{_PLAIN}(?:'{_PLAIN})*")
_LATIN_MARKS = re.compile("(?<=[a-z])[\u0300-\u036f]+")
_DENSE_SCRIPT = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
"""Scripts written without spaces: Thai, Lao, Burmese, Khmer, kana and Han."""

_TITLES = {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "the", "a", "an"}

_FUNCTION_WORDS = """a about above after again against all am an and any are as at be because been before being
below between both but by can did do does doing don down during each few for from further had has have having he her
here hers herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off
on once only or other our ours ourselves out over own s same she should so some such t than that the their theirs
them themselves then there these they this those through to too under until up very was we were what when where which
while who whom why will with would you your yours yourself yourselves ll ve re d m"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words and the rests of their short forms; they carry no evidence in BM25."""

_NUMBER_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty"""
_NUMBER_WORDS = {word: str(value) for value, word in enumerate(_NUMBER_NAMES.split())}
_NUMBER_WORD = re.compile(r"\b(?:" + "|".join(_NUMBER_WORDS) + r")\b")
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_BOUNDARY = re.compile(
    r"(?<![.!?…؟])(?P<end>[.!?…؟]+)(?P<close>[\"'”’)\]*]*)\s+(?=(?P<next>\S))|[。！？।]+[\"'”’」』）)]*|\n\s*"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|mt|vs|etc|e\.g|i\.e|approx|dept|jr|sr|inc|ltd|co|gen|sen|rep|rev|u\.s|u\.k|a\.k\.a)"
    r"|(?:^|\s)(?-i:[A-HJ-Z]))$",
    re.IGNORECASE,
)
"""What a full stop does not end: titles, abbreviations and initials (the pronoun "I" is none)."""
_BEFORE_NUMBER = re.compile(
    r"\b(?:no|nr|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|fig|vol|p|pp|ch)$", re.IGNORECASE
)
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\(?(?:\d{1,2}|[a-zA-Z])$")


def clean(text: str) -> str:
    """Text without NUL and lone surrogates, in NFC."""
    return unicodedata.normalize("NFC", _SURROGATES.sub("", text.replace("\x00", "")))


def normalize_statement(text: str) -> str:
    """The surface form that exact duplicates share: case, spacing, quotes and the final stop do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = folded.translate({ord("’"): "'", ord("‘"): "'", ord("“"): '"', ord("”"): '"'})
    return _SPACES.sub(" ", folded).strip(" \"'").rstrip(" \"'.!…")


def normalize_name(text: str) -> str:
    """The key of a name: case, titles, articles, possessives and punctuation do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    folded = re.sub(r"'s\b|s'(?=\s|$)", lambda found: "s" if found.group() == "s'" else "", folded)
    words = re.findall(_PLAIN, folded)
    while len(words) > 1 and words[0] in _TITLES:
        words = words[1:]
    return " ".join(words)


@lru_cache(maxsize=16)
def _stemmer(language: str) -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer(language)


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str) -> str:
    return str(_stemmer(language).stemWord(word))


def terms(text: str, language: str = "english") -> list[str]:
    """Search terms in order: folded words, stemmed; scripts without spaces as bigrams; numbers whole.

    ``language`` is a Snowball language. English also drops stop words and Latin accents; the other languages keep
    theirs. Raises KeyError for a language that Snowball lacks.
    """
    english = language == "english"
    folded = _folded(text)
    if english and not folded.isascii():
        folded = unicodedata.normalize("NFC", _LATIN_MARKS.sub("", unicodedata.normalize("NFD", folded)))
    found: list[str] = []
    for word in _WORD.findall(folded):
        if word.isascii() and word.isalpha():
            if not (english and word in STOP_WORDS):
                found.append(_stem(word, language))
        elif word[0].isdigit():
            found.append(_THOUSANDS.sub("", word))
        elif _DENSE_SCRIPT.search(word):
            found.extend(_dense(word))
        elif not (english and word.endswith("n't")):
            parts = word.split("'")
            found.extend(_stem(part, language) for part in parts if not (english and part in STOP_WORDS))
    return found


def _folded(text: str) -> str:
    if text.isascii():
        return text.casefold()
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def _dense(word: str) -> list[str]:
    parts: list[str] = []
    for run in _DENSE_SCRIPT.findall(word):
        parts += [run] if len(run) < 2 else [run[i : i + 2] for i in range(len(run) - 1)]
    return parts + [rest for rest in _DENSE_SCRIPT.split(word) if rest]


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, each a verbatim piece of it."""
    found: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        if boundary["end"] and not _ends_sentence(text, start, boundary):
            continue
        found.append(text[start : boundary.end()].strip())
        start = boundary.end()
    found.append(text[start:].strip())
    return [piece for piece in found if piece]


def _ends_sentence(text: str, start: int, boundary: re.Match[str]) -> bool:
    """Whether a full stop, question or exclamation mark and the space after it part two sentences."""
    end, following = boundary["end"], boundary["next"]
    before = text[max(start, boundary.start() - 20) : boundary.start()]
    if end == ".":
        if _ABBREVIATION.search(before) or _LIST_NUMBER.search(before):
            return False
        if following.isdigit() and _BEFORE_NUMBER.search(before):
            return False
    if not following.islower():
        return True
    # Quick typists don't begin with a capital; but quotes and trailing dots go on in lower case.
    return not boundary["close"] and end not in {"...", "…", "...."} and not before.endswith((".m", ".M"))


def clipped(text: str, limit: int) -> str:
    """A text cut at a word to at most ``limit`` characters, always a beginning of it."""
    if len(text) <= limit:
        return text
    head = text[: max(0, limit)]
    cut = head.rfind(" ")
    return (head[:cut] if cut > limit // 2 else head).rstrip()


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text in digits, number words up to twenty included; "1,900.50" is "1900.5"."""
    found = {_normal_number(digits) for digits in _NUMBER.findall(text)}
    return frozenset(found | {_NUMBER_WORDS[word] for word in _NUMBER_WORD.findall(text.casefold())})


def _normal_number(digits: str) -> str:
    if not digits.isascii():
        digits = "".join(str(unicodedata.digit(char, 0)) if char.isdigit() else char for char in digits)
    plain = _THOUSANDS.sub("", digits)
    if ":" in plain or plain.count(".") + plain.count(",") > 1:
        return plain
    whole, _, fraction = plain.replace(",", ".").partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
