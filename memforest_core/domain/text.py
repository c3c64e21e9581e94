"""Text as the rest of the domain needs it: cleaned, normalized, cut into sentences and search terms."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import takewhile

import snowballstemmer

from memforest_core.domain import languages
from memforest_core.domain.languages import ENGLISH, guess, language_of, own_language, plausible

LOOP_BYTES = 200
LOOP_SHARE = 10
"""A text of so many bytes that compresses to a part in so many says one thing again and again."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")
_EXPONENT = re.compile(r"(?<=\d)[⁰¹²³⁴-⁹⁻]+")
_INCHES = re.compile(r"""[^"'][^"]*\d["']$""")
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
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_DENSE = f"\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff{_HAN}\uac00-\ud7a3"
"""Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han), and Hangul, whose endings no stemmer knows."""
_DENSE_SCRIPT = re.compile(f"[{_DENSE}]+")
_BORDER = re.compile(rf"(?<=[{_DENSE}])(?=[^\W_{_DENSE}])|(?<=[^\W_{_DENSE}])(?=[{_DENSE}])")
_HAN_SIGN = re.compile(f"[{_HAN}]")
_DENSE_FUNCTION_WORDS = """的 了 是 我 你 您 他 她 它 们 們 在 有 和 与 也 就 都 很 吗 嗎 呢 吧 啊 这 這 那 不 没
沒 把 被 什 么 麼 我们 我們 你们 他们 她们 什么 什麼 怎么 怎麼 哪里 哪裡 哪儿 为什 為什 这个
那个 一个 です でし ます まし した して する こと どこ だれ なに いつ から まで ない いる ある
입니 니다 습니 에서 에게 하고"""
_DENSE_STOP_WORDS = frozenset(_DENSE_FUNCTION_WORDS.split())
"""Signs and pairs of signs that are function words, or parts of one."""

_BEGINNING = 4
_TITLES = {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "the", "a", "an"}

STOP_WORDS = languages.STOP_WORDS[ENGLISH]
"""English function words and the rests of their short forms; they carry no evidence in BM25."""

_NUMBER_NAMES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty"""
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_NUMBER_NAMES.split())}
_NUMBER_WORD = re.compile(r"\b(?:" + "|".join(NUMBER_WORDS) + r")\b")
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
    """The surface form that exact duplicates share: without case, spacing, quotes and the final stop. Exponents stay,
    and so do feet and inches at the end."""
    folded = unicodedata.normalize("NFKC", _EXPONENT.sub(r"^\g<0>", text)).casefold()
    folded = folded.translate({ord("’"): "'", ord("‘"): "'", ord("“"): '"', ord("”"): '"'})
    folded = _SPACES.sub(" ", folded).strip().rstrip(" .!…")
    return folded if _INCHES.match(folded) else folded.strip(" \"'").rstrip(" \"'.!…")


def normalize_name(text: str) -> str:
    """The key of a name: case, titles, articles, possessives and punctuation do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    folded = re.sub(r"'s\b|s'(?=\s|$)", lambda found: "s" if found.group() == "s'" else "", folded)
    words = re.findall(_PLAIN, folded)
    first = next((at for at, word in enumerate(words[:-1]) if word not in _TITLES), len(words) - 1)
    return " ".join(words[max(0, first) :])


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str) -> str:
    # A stemmer has the word it is at in itself, so that threads can't share one; making one is cheap.
    return str(snowballstemmer.stemmer(language).stemWord(word))


def terms(text: str, language: str | None = None, begins: tuple[str, ...] = ("",)) -> list[str]:
    """Search terms in order: folded words without stop words, stemmed; numbers whole, in plain digits.

    ``language`` is a Snowball language; without it each line is read in the language it shows itself to be in, and
    one that shows none in that of the whole text (English when that shows none either). Words in another script than
    the text's are stemmed by the language of their script; scripts without spaces become single Han signs and pairs
    of signs. Terms carry no Latin accents: stemmers see them, as they need them to know endings, and what is left is
    stripped. Names keep one form in all languages: a capitalized word of a text in another language than English also
    has its English stem. English words that begin with none of ``begins`` are left out. Raises KeyError for a language
    that Snowball does not have.
    """
    if language is not None:
        return _terms_in(text, language, begins)
    whole = language_of(text)
    if "\n" not in text:
        return _terms_in(text, whole, begins)
    return [term for line in text.split("\n") for term in _terms_in(line, guess(line) or whole, begins)]


def terms_among(text: str, wanted: Collection[str]) -> frozenset[str]:
    """Those of the ``wanted`` terms that a text has: stemming all of its words takes several times as long."""
    # An English stem begins with the first two letters of its word, but for those like "die" of "dying".
    begins = {term[:2] for term in wanted} | {f"{term[0]}y" for term in wanted if term[1:2] == "i"}
    return frozenset(wanted).intersection(terms(text, begins=tuple(begins)))


def variants(text: str) -> list[frozenset[str]]:
    """For each word of a question the terms under which a text may have been indexed that says the same.

    A text is indexed by the stems of its own language; the language of a few words is often anybody's guess. So each
    word is stemmed by every language that the question may be in, always by English too, with accents and without.
    A question in plain English has one term a word, those of ``terms``; one whose function words leave no doubt is
    stemmed by its language and English.
    """
    tongues = plausible(text)
    if tongues == (ENGLISH,):
        return [frozenset((term,)) for term in terms(text, ENGLISH)]
    sure = guess(text)
    found: list[frozenset[str]] = []
    for word in _WORD.findall(_plain(text)):
        whole = _signs(word)
        if whole is not None:
            found += [frozenset((term,)) for term in whole]
        elif not _lowered(word, ENGLISH).endswith("n't"):
            found += [forms for part in word.split("'") if (forms := _forms(part, tongues, sure))]
    return found


def _forms(part: str, tongues: Sequence[str], sure: str | None) -> frozenset[str]:
    forms: set[str] = set()
    for tongue in tongues:
        own = own_language(part, tongue)
        low = _lowered(part, own)
        if low in languages.STOP_WORDS.get(own, ()):
            if own == sure:
                return frozenset()
        else:
            forms |= {_folded_stem(low, own), _folded_stem(_bare(low), own)}
    return frozenset(forms)


def beginnings(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """For each content word of a question in another language the beginnings of four letters or more that its
    inflected forms share; none for an English word.

    For a search that stems English only.
    """
    tongues = plausible(" ".join(words))
    found: dict[str, frozenset[str]] = {}
    for word in words:
        own = [own_language(word, tongue) for tongue in tongues]
        if word in languages.STOP_WORDS.get(own[0], ()):
            continue
        stems = {_common_beginning(word, _stem(word, tongue)) for tongue in own if tongue != ENGLISH}
        found[word] = frozenset(stem for stem in stems if len(stem) >= _BEGINNING)
    return found


def _common_beginning(one: str, other: str) -> str:
    return "".join(sign for sign, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def signs(words: Sequence[str]) -> list[str]:
    """What to look for inside texts of scripts without spaces: the terms of a question's words in them."""
    return list(dict.fromkeys(term for word in words if _DENSE_SCRIPT.search(word) for term in _dense(word)))


def _terms_in(text: str, language: str, begins: tuple[str, ...]) -> list[str]:
    if language == ENGLISH:
        return _english(text, begins)
    found: list[str] = []
    for word in _WORD.findall(_plain(text)):
        whole = _signs(word)
        if whole is not None:
            found += whole
            continue
        parts = word.split("'")
        for part in parts:
            own = own_language(part, language)
            low = _lowered(part, own)
            if low in languages.STOP_WORDS.get(own, ()) or (len(parts) > 1 and len(low) == 1):
                continue
            stem = _folded_stem(low, own)
            found.append(stem)
            if part[0].isupper() and part[0] < "\u0370":
                name = _bare(low)
                if name not in STOP_WORDS and (as_english := _stem(name, ENGLISH)) != stem:
                    found.append(as_english)
    return found


def _english(text: str, begins: tuple[str, ...]) -> list[str]:
    folded = text.casefold() if text.isascii() else _bare(_plain(text).casefold())
    found: list[str] = []
    for word in _WORD.findall(folded):
        if word.isascii() and word.isalpha():
            if word not in STOP_WORDS and word.startswith(begins):
                found.append(_stem(word, ENGLISH))
        elif (whole := _signs(word)) is not None:
            found += whole
        elif not word.endswith("n't"):
            for part in word.split("'"):
                own = own_language(part, ENGLISH)
                if part not in languages.STOP_WORDS.get(own, ()):
                    found.append(_folded_stem(part, own))
    return found


def _plain(text: str) -> str:
    return parted(unicodedata.normalize("NFKC", text)).replace("’", "'")


def parted(text: str) -> str:
    """A text with a space wherever a script without spaces meets letters or digits: "IP是10.0.0.5" has two words."""
    return text if text.isascii() else _BORDER.sub(" ", text)


def _bare(text: str) -> str:
    """Without accents on Latin letters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _LATIN_MARKS.sub("", unicodedata.normalize("NFD", text)))


def _lowered(word: str, language: str) -> str:
    if language == "turkish":
        word = word.replace("İ", "i").replace("I", "ı")
    return word.casefold()


@lru_cache(maxsize=65_536)
def _folded_stem(word: str, language: str) -> str:
    stem = _bare(_stem(word, language))
    return stem.replace("ı", "i") if language == "turkish" else stem


def _signs(word: str) -> list[str] | None:
    """The terms of a number or of a word in a script without spaces; None for other words."""
    if not word.isascii() and _DENSE_SCRIPT.search(word):
        return _dense(word)
    if not word[0].isdigit():
        return None
    return [_THOUSANDS.sub("", _bare(_plain_digits(word).casefold()))]


def _plain_digits(text: str) -> str:
    """The text with the digits of any script as 0 to 9."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.digit(char, char)) if char.isdigit() else char for char in text)


def _dense(word: str) -> list[str]:
    found: list[str] = []
    for run in _DENSE_SCRIPT.findall(word):
        for at, sign in enumerate(run):
            pair = run[at : at + 2]
            if len(run) == 1 or _HAN_SIGN.match(sign):
                found.append(sign)
            if len(pair) == 2:
                found.append(pair)
    return [term for term in found if term not in _DENSE_STOP_WORDS]


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
    return frozenset(found | {NUMBER_WORDS[word] for word in _NUMBER_WORD.findall(text.casefold())})


def _normal_number(digits: str) -> str:
    plain = _THOUSANDS.sub("", _plain_digits(digits))
    if ":" in plain or plain.count(".") + plain.count(",") > 1:
        return plain
    whole, _, fraction = plain.replace(",", ".").partition(".")
    fraction = fraction.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")


def is_loop(text: str) -> bool:
    """Whether a text repeats itself, as small models do until their answer's limit."""
    data = text.encode(errors="ignore")
    return len(data) >= LOOP_BYTES and LOOP_SHARE * len(zlib.compress(data)) < len(data)
