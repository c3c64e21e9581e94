"""Text as the rest of the domain needs it: cleaned, normalized, cut into sentences and search terms."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import snowballstemmer

_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_DENSE_SCRIPT = re.compile(
    "[\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
"""Scripts written without spaces: Thai, Lao, Burmese, Khmer, kana and Han."""

_TITLES = {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "the", "a", "an"}

STOP_WORDS = frozenset(
    """a about above after again against all am an and any are as at be because been before being below between both
    but by can did do does doing don down during each few for from further had has have having he her here hers herself
    him himself his how i if in into is it its itself just me more most my myself no nor not now of off on once only or
    other our ours ourselves out over own s same she should so some such t than that the their theirs them themselves
    then there these they this those through to too under until up very was we were what when where which while who whom
    why will with would you your yours yourself yourselves ll ve re d m""".split()
)
"""English function words; they carry no evidence in BM25."""

_NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
}
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9\u00c0-\U0010ffff])|(?<=[。！？])|\n+")
_ABBREVIATION = re.compile(r"(?:\b(?:mr|mrs|ms|dr|prof|st|vs|etc|e\.g|i\.e|no|jr|sr)|\b[A-Z])\.$", re.IGNORECASE)


def clean(text: str) -> str:
    """Text without NUL and lone surrogates, in NFC."""
    return unicodedata.normalize("NFC", _SURROGATES.sub("", text.replace("\x00", "")))


def normalize_statement(text: str) -> str:
    """The surface form that exact duplicates share: case, spacing, quotes and the final stop do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = folded.translate({ord("’"): "'", ord("‘"): "'", ord("“"): '"', ord("”"): '"'})
    return _SPACES.sub(" ", folded).strip().strip("\"'").rstrip(".!…").strip()


def normalize_name(text: str) -> str:
    """The key of a name: case, titles, articles, possessives and punctuation do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    folded = re.sub(r"'s\b|s'(?=\s|$)", lambda found: "s" if found.group() == "s'" else "", folded)
    words = [word for word in re.findall(r"[^\W_]+", folded)]
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
    """Search terms in order: folded words without stop words, stemmed; scripts without spaces as bigrams."""
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold().replace("’", "'")):
        if _DENSE_SCRIPT.search(word):
            found.extend(_dense(word))
            continue
        for part in word.split("'"):
            if part and part not in STOP_WORDS:
                found.append(_stem(part, language))
    return found


def _dense(word: str) -> list[str]:
    parts: list[str] = []
    for run in _DENSE_SCRIPT.findall(word):
        parts += [run] if len(run) < 2 else [run[i : i + 2] for i in range(len(run) - 1)]
    return parts + [rest for rest in _DENSE_SCRIPT.split(word) if rest]


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, each a verbatim piece of it."""
    found: list[str] = []
    for piece in _SENTENCE_END.split(text):
        piece = piece.strip() if piece else ""
        if not piece:
            continue
        joined = f"{found[-1]} {piece}" if found else ""
        if found and _ABBREVIATION.search(found[-1]) and joined in text:
            found[-1] = joined
        else:
            found.append(piece)
    return found


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text in digits, number words up to twenty included."""
    digits = {found.replace(",", "") for found in _NUMBER.findall(text)}
    words = {_NUMBER_WORDS[w] for w in re.findall(r"[a-z]+", text.casefold()) if w in _NUMBER_WORDS}
    return frozenset(digits | words)
