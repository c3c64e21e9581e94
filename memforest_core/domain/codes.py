"""Codes in texts: order numbers, phone numbers, model names; what is looked for letter by letter."""

from __future__ import annotations

import re
import unicodedata

from memforest_core.domain.text import parted

MIN_DIGITS = 4
"""Digits of a number that names something, where no letter is in it: shorter ones count things."""
MIN_PHONE_DIGITS = 7
"""Digits of a phone number whose groups are separate: as many as a subscriber's number has."""

_CODE = re.compile(r"[^\W_]+(?:[-/._#+:][^\W_]+)*")
_DIGIT = re.compile("[0-9]")
_PHONE = re.compile(r"(?<![\w.,:/-])\+?\(?\d[\d()]{,20}(?:[ ./-]{1,2}\(?\d[\d()]{,20}){1,12}(?![\w:/-])")
_PLAIN = re.compile(
    r"(?:19|20)\d\d|\d+(?:st|nd|rd|th|s)|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}(?:[:.]\d\d)?(?:am|pm)|\d{1,2}[:.]\d\d(?:[:.]\d\d)?"
    r"|\d+(?:[-/.:]\d+)*(?:t\d\d(?::\d\d)+z?)"
)
"""Years, ordinals, decades, dates and times of day: texts tell them in many ways, and they are looked for as times."""


def codes(text: str) -> frozenset[str]:
    """The codes of a text, folded, without what is between their parts: "Hobby3" is hobby3, "A-17/b" is a17b.

    A code has a digit, and a letter or at least four digits; years, dates and times of day are none.
    """
    folded = parted(unicodedata.normalize("NFKC", text)).casefold()
    # Of each recall with a code a hundred texts are looked through, most of them without a digit.
    if not (_DIGIT.search(folded) if folded.isascii() else any(map(str.isdigit, folded))):
        return frozenset()
    found: set[str] = set()

    def phone(match: re.Match[str]) -> str:
        joined = _joined(match.group())
        if len(joined) < MIN_PHONE_DIGITS or _PLAIN.fullmatch(match.group()):
            return match.group()
        found.add(joined)
        return " "

    rest = _PHONE.sub(phone, folded)
    return frozenset(found.union(_joined(word) for word in _CODE.findall(rest) if _names(word)))


def _names(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    if not digits or _PLAIN.fullmatch(word):
        return False
    return digits >= MIN_DIGITS or any(map(str.isalpha, word))


def _joined(word: str) -> str:
    return "".join(char for char in word if char.isalnum())
