"""Finding date phrases in running English text, word for word."""

from __future__ import annotations

import re

from memforest_core.domain.date_words import COUNT, ORDINAL, SEASON, SHORT, UNIT, VAGUE
from memforest_core.domain.periods import HOLIDAYS, MONTHS, WEEKDAYS
from memforest_core.domain.tense import looks_ahead

_LONG_MONTHS = "|".join(name for name in MONTHS if name not in {"may", "march"})
_MONTH = rf"(?:{_LONG_MONTHS}|may|march|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?)"
_SURE_MONTH = rf"(?:{_LONG_MONTHS}|(?-i:May|March))"
"""Months that are not a verb or a modal in lower case."""
_ORDINAL = rf"(?:[0-3]?\d(?:st|nd|rd|th)|{ORDINAL})"
_DAY = rf"(?:{_ORDINAL}|[0-3]?\d(?![\d:]|[.,]\d))"
_TO_DAY = rf"(?:(?:\s?[-–]\s?|\s+(?:to|and|until)\s+(?:the\s+)?){_DAY})?"
_YEAR = r"(?:(?:1[89]|20|21)\d\d(?![,.]?\d|%)|'\d\d)"
_IN_YEAR = rf"(?:,?[\s-]+(?:of\s+)?{_YEAR})?"
_DAYS = "|".join(WEEKDAYS)
_OFTEN = "mornings|afternoons|evenings|nights"
_WEEKDAY = rf"(?:{_DAYS}|(?:mon|tues?|wed|thu(?:rs?)?|fri|(?-i:Sat|Sun))\b\.?)(?!\s+(?:{_OFTEN})\b)"
_ANY_WEEKDAY = rf"(?:{_DAYS})(?!\s+(?:{_OFTEN}|school|roast|times|blues|best)\b)"
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
_EDGE = (
    r"(?:(?:the\s+)?(?:early|earlier|late|later|mid|end\s+of|start\s+of|beginning\s+of|middle\s+of"
    r"|(?:first|second)\s+half\s+of)(?:\s+|-))"
)
_DATE = (
    rf"(?:{_WEEKDAY},?\s+)?(?:the\s+)?(?:{_MONTH}\s+(?:the\s+)?{_DAY}{_TO_DAY}(?![\d:%]){_IN_YEAR}"
    rf"|(?:(?<=\bon )[0-3]?\d\.|{_DAY}{_TO_DAY})[\s-]+(?:of\s+)?{_MONTH}{_IN_YEAR})"
)
_NUMERIC = (
    r"(?:(?:19|20)\d\d/[01]?\d/[0-3]?\d|(?:19|20)\d\d(?P<s1>[-.])[01]\d(?P=s1)[0-3]\d"
    r"(?:[T ][0-2]\d:[0-5]\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-][01]\d:?[0-5]\d)?)?"
    r"|[0-3]?\d(?P<s2>[-/.])[0-3]?\d(?P=s2)(?:19|20)\d\d|[0-3]?\d/[0-3]?\d/\d\d"
    r"|(?<=\bon )[0-3]\d\.[01]\d\.\d\d)(?![.,]\d)"
)
_HALF = r"(?:\s+and\s+a\s+half)?"
_CORES = (
    rf"(?:from|between)\s+(?:{_SURE_MONTH}|{_YEAR}){_IN_YEAR}\s+(?:to|until|and)\s+(?:{_SURE_MONTH}{_IN_YEAR}|{_YEAR})",
    rf"(?:from|between)\s+{_DATE}\s+(?:to|until|and)\s+{_DATE}",
    rf"from\s+{_WEEKDAY}\s+(?:to|until)\s+{_WEEKDAY}",
    rf"(?:the\s+)?(?:first|second|third|fourth|last)\s+(?:weekend|week|{_WEEKDAY})\s+(?:of|in)\s+{_MONTH}{_IN_YEAR}",
    rf"(?:the\s+)?week\s+of\s+{_DATE}",
    _NUMERIC,
    r"(?:19|20)\d\d-0[1-9]|(?:19|20)(?:1[3-9]|[2-9]\d)-1[0-2]|(?<=\bin )(?:[01]?\d/(?:19|20)\d\d|(?:19|20)\d\d/[01]\d)",
    r"(?<=\bon )[01]?\d/[0-3]?\d(?=\s*(?:$|[,;!?]|\.(?!\d)|(?:at|i|we|he|she|they)\b))",
    rf"{_DATE}{_PART}{_CLOCK}",
    rf"(?:{_EDGE})?{_MONTH},?\s+(?:of\s+)?{_YEAR}",
    rf"(?:{_WHEN}|{_WHICH})\s+{_EDGE}?(?:{_WHICH}\s+)?{_SURE_MONTH}",
    r"(?:in|since|during|last|next)\s+(?:early\s+|late\s+|mid[\s-])?(?:may|march|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?)",
    rf"{_EDGE}{_SURE_MONTH}",
    rf"(?:{COUNT})\s+(?:day|week|fortnight|year)s?\s+(?:from|ago(?:\s+on)?)\s+(?:today|yesterday|tomorrow|{_WEEKDAY})",
    rf"(?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow){_PART}{_CLOCK}",
    rf"(?:yesterday|tomorrow|tonight|last\s+night|(?:earlier|later)\s+today|today|this\s+(?:morning|afternoon|evening)){_PART}{_CLOCK}",
    rf"the\s+(?:(?:weekend|week|month|year)\s+(?:before\s+last|after\s+next)|(?:night|{_WEEKDAY})\s+before\s+last)",
    rf"(?:on\s+)?{_WEEKDAY}(?:\s+of|,)?\s+(?:last|this|next)\s+week",
    rf"(?:last|this|next)\s+week,?\s+(?:on\s+)?{_WEEKDAY}",
    rf"{_WHICH}\s+(?:weekend|week|month|year|decade|{_WEEKDAY}{_PART}{_CLOCK}|{SEASON}|{_HOLIDAY})",
    r"(?<=by )the\s+end\s+of\s+the\s+(?:week|month|year)",
    rf"(?:on\s+)?{_WEEKDAY},?\s+the\s+{_ORDINAL}",
    rf"(?:on|by|until|since|till)\s+{_WEEKDAY}{_PART}{_CLOCK}",
    rf"(?<!every )(?<!each )(?<!\ba )(?<!\bthe )(?<!black )(?<!cyber )(?<!good ){_ANY_WEEKDAY}{_PART}{_CLOCK}",
    r"(?:over|on|at|for|during)\s+the\s+weekend",
    rf"(?:in|over|during)\s+the\s+(?:last|past)\s+(?:few|couple\s+of|several|{COUNT})\s+(?:day|week|month|year)s",
    rf"(?:(?:about|around|almost|over|just)\s+)?(?:{COUNT}|{VAGUE}|half\s+an?){_HALF}\s+(?:{UNIT}|{SHORT}|wk|yr)s?{_HALF}\s+(?:ago|from\s+now)",
    rf"in\s+(?:about\s+)?(?:{COUNT}|{VAGUE})\s+(?:day|week|fortnight|month|year)s?(?!\s+of)(?:'?s?'?\s+time)?",
    r"the\s+other\s+(?:day|night)",
    rf"(?:over\s+|at\s+|on\s+|for\s+)?{_HOLIDAY}(?:\s+week)?{_IN_YEAR}",
    rf"(?:in|over|during|since|by)\s+(?:the\s+|{_EDGE})?(?:{SEASON}){_IN_YEAR}",
    rf"{SEASON}\s+(?:of\s+)?{_YEAR}",
    rf"(?:back\s+)?{_WHEN}\s+{_EDGE}?{_YEAR}",
    rf"{_EDGE}{_YEAR}",
    r"(?:from|between|in)\s+(?:19|20)\d\d\s?[-–]\s?(?:19|20)\d\d",
    r"(?:in\s+)?the\s+(?:early\s+|mid[\s-]|late\s+)?(?:(?:19|20)\d0|'?[4-9]0)'?s",
    rf"(?:the\s+)?{_ORDINAL}\s+of\s+(?:last|this|next|the)\s+month",
    rf"(?:on|by|until|till|since|from)\s+the\s+[0-3]?\d(?:st|nd|rd|th){_CLOCK}"
    r"(?=\s*(?:$|[.,;:!?)]|(?:at|but|because|so|i|we|he|she|they|it|when|if|is|was|with|by|until|to|after|before)\b))",
)
_LEAD = rf"(?:(?:on|in|at|since|by|until|from|around|before|after|for|over)\s+)?(?:the\s+)?(?:{_EDGE})?"
_PHRASE = re.compile(
    r"(?<![\w/-])(?<!\w\.)(?:"
    + "|".join(f"{_LEAD if index > 0 else ''}{core}" for index, core in enumerate(_CORES))
    + r")(?![\w/]|-\w)",
    re.IGNORECASE,
)
_CUES = re.compile(
    r"\d|days?\b|nights?\b|week|month|year|morning|evening|afternoon|tomorrow|ago\b|decade|from now\b|"
    + "|".join((*MONTHS, *SEASON[3:-1].split("|"), "christmas", "xmas", "easter", "thanksgiving", "halloween"))
    + r"|\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b",
    re.IGNORECASE,
)


_RELATIVE = re.compile(r"\b(?:last|next|this|past|ago|yesterday|today|tonight|tomorrow|weekend)\b", re.IGNORECASE)
_HAS_YEAR = re.compile(rf"(?<![\d.,/]){_YEAR}(?!\d)")
_SMALL_DAY = re.compile(r"(?:may|march)\b\.?\s+\d(?!.*(?:st|nd|rd|th)\b)|\d\s+(?:may|march)\b")
_LIMITED = re.compile(r"(?:on|since|until|till|before|after|between|from|by|in|around)\b", re.IGNORECASE)
_PERSON_MONTH = re.compile(r"(?P<lead>\w+)\s+(?:April|May|June|August)", re.IGNORECASE)
_SENT = re.compile(
    r"\b(?:letters?|gifts?|calls?|messages?|texts?|e?mails?|cards?|presents?|notes?|hugs?|advice|recipes?|heard|gets?|got|it|one"
    r"|photos?|friends?|help)\s+$"
)
_IN_UNITS = re.compile(rf"(?:within\s+)?in\s+(?:about\s+)?(?:{COUNT}|{VAGUE})\s", re.IGNORECASE)
_DEED = re.compile(r"\s+(?:\w+ed|left|came|went|got|was|is|said|told|had|met|gave|has|bought|made|became)\b")
_QUANTITY = re.compile(r"(?P<lead>\w+)\s+(?:(?:1[89]|2[01])\d\d|may|march)")
_NOUN = re.compile(
    r"\s+(?!(?:and|or|did|does|do|has|have|had|was|were|is|are|to|that|when|with|for|on|in|at|by|of|who|what|where|which"
    r"|how|why|i|we|he|she|they|you|it|but|because|until|till|before|after|through|onwards?|as|if|can|could|would|should"
    r"|the|a|my|his|her|their|our|during|from|while|compared|versus|vs|besides|than|season|edition|alone|only)\b)[a-z]"
    r"|\s*[%°$€£]"
)


def find_date_phrases(sentence: str) -> list[str]:
    """The date phrases of a sentence, verbatim, in order and without overlaps; durations are none."""
    if not _CUES.search(sentence):
        return []
    straight = sentence.replace("’", "'")
    found = (match for match in _PHRASE.finditer(straight) if _is_date(straight, *match.span()))
    return [sentence[match.start() : match.end()].strip() for match in found]


def _is_date(text: str, start: int, end: int) -> bool:
    """Whether what has the form of a date is one: names of people, quantities and verbs are not."""
    phrase, before = text[start:end], text[:start]
    has_year = _HAS_YEAR.search(phrase) is not None
    if _SMALL_DAY.search(phrase) and not has_year and not _LIMITED.match(phrase):
        return re.search(r"(?:to|and|[-–])\s*$", before) is not None
    if text.startswith("'s", end) and not has_year and not _RELATIVE.search(phrase):
        return False
    person = _PERSON_MONTH.fullmatch(phrase)
    if person is not None:
        lead = person["lead"].lower()
        if lead in {"of", "over", "around"} or (lead == "from" and _SENT.search(before)):
            return re.match(r"\s+(?:on(?:wards?)?|to|until|till|and)\b", text[end:]) is not None
        return lead not in {"before", "after", "by", "since", "until", "till"} or not _DEED.match(text, end)
    if _IN_UNITS.match(phrase) and looks_ahead(text, phrase) is False:
        return False
    quantity = _QUANTITY.fullmatch(phrase)
    if quantity is None:
        return True
    return not _NOUN.match(text, end) and not (quantity["lead"].lower() in {"of", "over"} and phrase.endswith("00"))
