"""Finding date phrases in running English text, word for word."""

from __future__ import annotations

import re

from memforest_core.domain.date_words import COUNT, SEASON, VAGUE
from memforest_core.domain.periods import HOLIDAYS, MONTHS, WEEKDAYS

_LONG_MONTHS = "|".join(name for name in MONTHS if name not in {"may", "march"})
_MONTH = rf"(?:{_LONG_MONTHS}|may|march|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?)"
_SURE_MONTH = rf"(?:{_LONG_MONTHS}|(?-i:May|March)|(?:jan|feb|apr|aug|sept|oct|nov|dec)\b\.?)"
"""Months that are not a verb or a modal in lower case."""
_DAY = r"(?:[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?:1[89]|20|21)\d\d(?![,.]?\d|%)"
_IN_YEAR = rf"(?:,?\s+(?:of\s+)?{_YEAR})?"
_WEEKDAY = "(?:" + "|".join(WEEKDAYS) + ")"
_SURE_WEEKDAY = "(?-i:" + "|".join(name.capitalize() for name in WEEKDAYS) + ")"
_HOLIDAY = (
    "(?:"
    + "|".join(
        re.escape(name)
        for name in sorted(HOLIDAYS, key=len, reverse=True)
        if name not in {"new year", "new years", "valentine's"}
    )
    + r"|(?<=over )new year|(?<=at )new year)"
)
_PART = r"(?:\s+(?:morning|afternoon|evening|night))?"
_CLOCK = r"(?:,?\s+(?:at|around)\s+(?:\d\d?(?::\d\d)?\s?[ap](?:\.m\.|m\b)|\d\d?:\d\d|noon))?"
_WHICH = r"(?:last|next|this\s+past|this\s+coming|this|past|previous|coming|upcoming|following)"
_WHEN = r"(?:in|since|by|until|till|during|around|from|of|over|before|after)"
_EDGE = r"(?:(?:the\s+)?(?:early|late|mid|end\s+of|start\s+of|beginning\s+of|middle\s+of)(?:\s+|-))"
_DATE = (
    rf"(?:{_WEEKDAY},?\s+)?(?:the\s+)?(?:{_MONTH}\s+(?:the\s+)?{_DAY}(?:\s?[-–]\s?{_DAY})?(?!\d|:){_IN_YEAR}"
    rf"|{_DAY}(?:\s?[-–]\s?{_DAY})?\s+(?:of\s+)?{_MONTH}{_IN_YEAR})"
)
_CORES = (
    rf"(?:from|between)\s+(?:{_SURE_MONTH}|{_YEAR}){_IN_YEAR}\s+(?:to|until|and)\s+(?:{_SURE_MONTH}{_IN_YEAR}|{_YEAR})",
    rf"(?:the\s+)?(?:first|second|third|fourth|last)\s+(?:weekend|week|{_WEEKDAY})\s+(?:of|in)\s+{_MONTH}{_IN_YEAR}",
    rf"(?:the\s+)?week\s+of\s+{_DATE}",
    r"(?:19|20)\d\d-[01]\d-[0-3]\d(?:[T ][0-2]\d:[0-5]\d(?::\d\d)?)?",
    r"[0-3]?\d/[0-3]?\d/(?:\d{4}|\d\d)",
    rf"{_DATE}{_PART}{_CLOCK}",
    rf"(?:{_EDGE})?{_MONTH},?\s+(?:of\s+)?{_YEAR}",
    rf"(?:{_WHEN}|{_WHICH})\s+{_EDGE}?(?:{_WHICH}\s+)?{_SURE_MONTH}",
    rf"{_EDGE}{_SURE_MONTH}",
    rf"(?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow){_PART}",
    rf"(?:yesterday|tomorrow|tonight|last\s+night|earlier\s+today|today|this\s+(?:morning|afternoon|evening)){_PART}{_CLOCK}",
    r"(?:the\s+)?(?:weekend|week)\s+before\s+last",
    rf"{_WHICH}\s+(?:weekend|week|month|year|decade|{_WEEKDAY}{_PART}{_CLOCK}|{SEASON}|{_HOLIDAY})",
    rf"(?:on|by|until|since|till)\s+{_WEEKDAY}{_PART}{_CLOCK}",
    rf"(?<!every )(?<!each )(?<!\ba ){_SURE_WEEKDAY}{_PART}{_CLOCK}",
    r"(?:over|on|at|for|during)\s+the\s+weekend",
    rf"(?:(?:about|around|almost|over|just)\s+)?(?:{COUNT}|{VAGUE})\s+(?:day|night|week|fortnight|month|year|decade|hour)s?\s+ago",
    rf"in\s+(?:about\s+)?(?:{COUNT}|{VAGUE})\s+(?:day|week|fortnight|month|year)s?(?!\s+of)(?:'?\s+time)?",
    r"the\s+other\s+(?:day|night)",
    rf"(?:over\s+|at\s+|on\s+|for\s+)?{_HOLIDAY}(?:\s+week)?{_IN_YEAR}",
    rf"(?:in|over|during|since|by)\s+(?:the\s+|{_EDGE})?(?:{SEASON}){_IN_YEAR}",
    rf"{SEASON}\s+(?:of\s+)?{_YEAR}",
    rf"(?:back\s+)?{_WHEN}\s+{_EDGE}?{_YEAR}",
    rf"{_EDGE}{_YEAR}",
    r"(?:in\s+)?the\s+(?:(?:19|20)\d0|'?[4-9]0)'?s",
    r"on\s+the\s+[0-3]?\d(?:st|nd|rd|th)",
)
_LEAD = rf"(?:(?:on|in|at|since|by|until|from|around|before|after|for|over)\s+)?(?:the\s+)?(?:{_EDGE})?"
_PHRASE = re.compile(
    r"(?<![\w/-])(?:"
    + "|".join(f"{_LEAD if index > 0 else ''}{core}" for index, core in enumerate(_CORES))
    + r")(?![\w/]|-\d)",
    re.IGNORECASE,
)
_CUES = re.compile(
    r"\d|day\b|night\b|week|month|year|morning|evening|afternoon|tomorrow|ago\b|decade|"
    + "|".join((*MONTHS, *SEASON[3:-1].split("|"), "christmas", "xmas", "easter", "thanksgiving", "halloween"))
    + r"|\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|in)\b",
    re.IGNORECASE,
)


def find_date_phrases(sentence: str) -> list[str]:
    """The date phrases of a sentence, verbatim, in order and without overlaps; durations are none."""
    if not _CUES.search(sentence):
        return []
    straight = sentence.replace("’", "'")
    return [sentence[found.start() : found.end()].strip() for found in _PHRASE.finditer(straight)]
