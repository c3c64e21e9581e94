"""Finds date phrases, and resolves each to the interval of time that it honestly names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from memforest_core.domain.date_rules import Anchor, NoSuchDayError, read
from memforest_core.domain.periods import (
    COUNT,
    HOLIDAYS,
    MONTH,
    MONTHS,
    ORDINAL,
    SEASON,
    SHORT,
    UNIT,
    VAGUE,
    WEEKDAY,
    WEEKDAYS,
    Period,
    day,
    month,
    week_of,
    year,
)
from memforest_core.domain.times import UNKNOWN_TIME, Precision, TimeSpan, plausible

_BOUNDARY = re.compile(
    r"[,;:!?()]\s|\.(?:\s|$)|\b(?:and|but|because|so|then|while|although|though|which|that|who|when)\b"
)
_WAS = re.compile(r"\b(?:was|were|wasn't|weren't|had|hadn't|did|didn't|used to|since|ago)\b", re.IGNORECASE)
_TO_COME = re.compile(
    r"\b(?:will|won't|going to|gonna|due|deadline|scheduled|upcoming|plan(?:s|ning)? (?:to|on|for|a)|about to|must"
    r"|should|(?:have|has|needs?|wants?|hopes?|hoping) to|let's|remind|until|till|starting|tomorrow)\b|'ll\b"
    r"|\b(?:am|is|are|be|being|gets?|getting|(?:s?he|it)'s|\w+'re|i'm)\s+(?:not\s+|\w+ly\s+)?(?!been\b)\w+(?:ed|ing)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:went|gone|came|got|gotten|met|saw|seen|took|taken|made|bought|left|began|begun|became|sent|gave|given|told|said"
    r"|found|lost|won|broken?|fell|fallen|felt|kept|knew|known|paid|ran|sat|slept|spoken?|spent|stood|taught|thought|threw"
    r"|understood|woke|wore|wrote|written|drove|driven|flew|flown|ate|eaten|drank|swam|sang|born|built|caught|chosen?|done"
    r"|drew|drawn|fought|forgot|grew|grown|heard|held|led|lent|meant|rode|rose|sold|shot|stolen?|been|brought|wed|quit"
    r"|(?!(?:need|feed|speed|indeed|hundred|seed|breed|exceed|proceed)\b)\w\w+ed)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:am|is|are|has|have|can|does?|it's|there's|that's|s?he's|i'm|\w+'re"
    r"|(?:start|begin|end|leave|arrive|return|move|open|close|expire|come|get|meet|see|play|take|visit|work|pay|travel|drive"
    r"|renew|graduate|retire|turn|land|depart|host|run|join|give)s?|(?:go|teach|launch|finish)(?:es)?|fly|flies|marr(?:y|ies))\b",
    re.IGNORECASE,
)


def looks_ahead(sentence: str, phrase: str) -> bool | None:
    """Whether the clause with a date phrase is about what is to come; None when no verb of it says."""
    sentence, phrase = sentence.replace("’", "'"), phrase.replace("’", "'")
    at = max(0, sentence.find(phrase))
    start = max((found.end() for found in _BOUNDARY.finditer(sentence, 0, at)), default=0)
    after = _BOUNDARY.search(sentence, at + len(phrase))
    clause = sentence[start : after.start() if after else len(sentence)]
    if _WAS.search(clause):
        return False
    if _TO_COME.search(clause):
        return True
    return False if _PAST.search(clause) else True if _PRESENT.search(clause) else None


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
_TIME_OF_DAY = r"(?:,?\s+(?:at|around)\s+(?:\d\d?(?::\d\d)?\s?[ap](?:\.m\.|m\b)|\d\d?:\d\d|noon))?"
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
    rf"{_DATE}{_PART}{_TIME_OF_DAY}",
    rf"(?:{_EDGE})?{_MONTH},?\s+(?:of\s+)?{_YEAR}",
    rf"(?:{_WHEN}|{_WHICH})\s+{_EDGE}?(?:{_WHICH}\s+)?{_SURE_MONTH}",
    r"(?:in|since|during|last|next)\s+(?:early\s+|late\s+|mid[\s-])?(?:may|march|(?:jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?)",
    rf"{_EDGE}{_SURE_MONTH}",
    rf"(?:{COUNT})\s+(?:day|week|fortnight|year)s?\s+(?:from|ago(?:\s+on)?)\s+(?:today|yesterday|tomorrow|{_WEEKDAY})",
    rf"(?:the\s+)?day\s+(?:before\s+yesterday|after\s+tomorrow){_PART}{_TIME_OF_DAY}",
    rf"(?:yesterday|tomorrow|tonight|last\s+night|(?:earlier|later)\s+today|today|this\s+(?:morning|afternoon|evening)){_PART}{_TIME_OF_DAY}",
    rf"the\s+(?:(?:weekend|week|month|year)\s+(?:before\s+last|after\s+next)|(?:night|{_WEEKDAY})\s+before\s+last)",
    rf"(?:on\s+)?{_WEEKDAY}(?:\s+of|,)?\s+(?:last|this|next)\s+week",
    rf"(?:last|this|next)\s+week,?\s+(?:on\s+)?{_WEEKDAY}",
    rf"{_WHICH}\s+(?:weekend|week|month|year|decade|{_WEEKDAY}{_PART}{_TIME_OF_DAY}|{SEASON}|{_HOLIDAY})",
    r"(?<=by )the\s+end\s+of\s+the\s+(?:week|month|year)",
    rf"(?:on\s+)?{_WEEKDAY},?\s+the\s+{_ORDINAL}",
    rf"(?:on|by|until|since|till)\s+{_WEEKDAY}{_PART}{_TIME_OF_DAY}",
    rf"(?<!every )(?<!each )(?<!\ba )(?<!\bthe )(?<!black )(?<!cyber )(?<!good ){_ANY_WEEKDAY}{_PART}{_TIME_OF_DAY}",
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
    rf"(?:on|by|until|till|since|from)\s+the\s+[0-3]?\d(?:st|nd|rd|th){_TIME_OF_DAY}"
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


__all__ = ["MAX_PHRASE_CHARS", "find_date_phrases", "resolve"]

MAX_PHRASE_CHARS = 80
"""Longer texts are no date phrases, and are slow to parse as one."""

_QUOTES = {ord("’"): "'", ord("‘"): "'", ord("`"): "'"}
_WHOLE = {"wk": "week", "yr": "year"}
_SHORTENED = re.compile(r"\b(?:wk|yr)(?=s?\b)")
_EDGES = ' \t.,;:!?"()[]{}<>«»“”*_~'
_CLOCK = re.compile(
    r"(?:,? ?\b(?:at|around|about|by|from))? ?(?:"
    r"\b(?P<h12>1[0-2]|0?[1-9])(?:[:.](?P<m12>[0-5]\d))? ?(?P<half>[ap])\.?m\b\.?"
    r"|\b(?P<h24>[01]?\d|2[0-3]):(?P<m24>[0-5]\d)(?::[0-5]\d)?\b"
    r"|\b(?P<noon>noon|midday)\b)"
)
_VAGUE_CLOCK = re.compile(
    r",? at (?:\d\d?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(?: o'clock)?$"
)
_STAMP = re.compile(r"(?:at |on |since |until |by |from )?(?P<stamp>\d{4}-\d\d-\d\d[t ]\d\d:\d\d.*)")
_RELATION = re.compile(r"(?:before|after|prior to|not|except) ")
_OF_HOURS = re.compile(rf"\b{SHORT}s?\b")
_DURATION = re.compile(
    rf"(?:(?:for|over|about|almost|nearly|around|only|just|some|at least|more than|less than|up to|within|and) )*"
    rf"(?:(?:the )?{VAGUE}|{COUNT}|half an?) (?:more )?(?:{UNIT}|minute|second)s?(?:(?:,| and|,? and a half)? .*)?"
)
_AGO = re.compile(r"\b(?:ago|back|from now|hence|earlier)\b")
_ENGLISH_DATE = re.compile(
    rf"\b(?:{MONTH}|{WEEKDAY}|ago|yesterday|today|tomorrow)(?!\w)|\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}"
)
_NUMBER_ONLY = re.compile(r"[\W\d_]*")
_PERIODS = {"time": Precision.MINUTE, "day": Precision.DAY, "week": Precision.WEEK, "month": Precision.MONTH}


def resolve(
    phrase: str,
    said_at: datetime,
    time_zone: str,
    languages: Sequence[str] = ("en",),
    *,
    future: bool | None = None,
    clock: tzinfo | None = None,
) -> TimeSpan:
    """The half-open UTC interval that a verbatim date phrase means, with the precision it was said with.

    ``said_at`` is aware; its day by the sender's ``clock`` (``time_zone``'s unless given) is what relative phrases
    count from. Days begin and end in ``time_zone`` (an IANA name), times of day are the clock's. An open date
    ("in May", "on Friday") is the last one, or the next when ``future``; a day and month without a year is the nearest,
    unless ``future`` is given.
    Durations, relations ("before May"), absurd dates and what is not understood are UNKNOWN_TIME; no phrase raises.
    ``languages`` are tried by dateparser when the English rules find nothing. Raises ZoneInfoNotFoundError for an
    unknown zone.
    """
    zone = ZoneInfo(time_zone)
    folded = _fold(phrase)
    if not folded or len(folded) > MAX_PHRASE_CHARS:
        return UNKNOWN_TIME
    now = said_at.astimezone(clock or zone).replace(tzinfo=None)
    if not _OF_HOURS.search(folded):
        now = datetime.combine(now, time.min)
    return _resolved(folded, now, zone, clock or zone, tuple(languages), future)


def _fold(phrase: str) -> str:
    text = unicodedata.normalize("NFKC", phrase[: 4 * MAX_PHRASE_CHARS]).casefold().translate(_QUOTES)
    return _SHORTENED.sub(lambda found: _WHOLE[found[0]], " ".join(text.split()).strip(_EDGES))


@lru_cache(maxsize=16_384)
def _resolved(
    phrase: str, now: datetime, zone: ZoneInfo, clock: tzinfo, languages: tuple[str, ...], future: bool | None
) -> TimeSpan:
    if stamp := _STAMP.fullmatch(phrase):
        stamped = _stamp(stamp["stamp"], clock)
        if stamped is not None:
            return stamped
    if _RELATION.match(phrase):
        return UNKNOWN_TIME
    anchor = Anchor(now, future)
    try:
        period = read(phrase, anchor) or _clocked(phrase, anchor)
    except NoSuchDayError:
        return UNKNOWN_TIME
    if period is None:
        if _DURATION.fullmatch(phrase) and not _AGO.search(phrase):
            return UNKNOWN_TIME
        period = _parsed(phrase, now.date(), languages, future)
    return UNKNOWN_TIME if period is None else _span(period, zone, clock)


def _stamp(phrase: str, clock: tzinfo) -> TimeSpan | None:
    try:
        moment = datetime.fromisoformat(phrase.upper())
        aware = moment if moment.tzinfo else moment.replace(tzinfo=clock)
        start = aware.astimezone(UTC).replace(second=0, microsecond=0)
    except (ValueError, OverflowError):
        return None
    return _checked(start, start + timedelta(minutes=1), Precision.MINUTE)


def _clocked(phrase: str, anchor: Anchor) -> Period | None:
    """A day with a time of day; without a day it is today's, without a half of the day only the day counts."""
    bare = _VAGUE_CLOCK.sub("", phrase)
    if bare != phrase:
        return read(bare.strip(_EDGES), anchor)
    found = _CLOCK.search(phrase)
    if found is None:
        return None
    rest = " ".join(f"{phrase[: found.start()]} {phrase[found.end() :]}".split()).strip(_EDGES)
    on = read(rest, anchor) if rest else day(anchor.today)
    if on is None or on.precision is not Precision.DAY:
        return None
    return Period(on.start, on.end, Precision.MINUTE, _time_of(found))


def _time_of(found: re.Match[str]) -> time:
    if found["noon"]:
        return time(12)
    if found["h24"]:
        return time(int(found["h24"]), int(found["m24"]))
    hour = int(found["h12"]) % 12 + (12 if found["half"] == "p" else 0)
    return time(hour, int(found["m12"] or 0))


def _parsed(phrase: str, today: date, languages: tuple[str, ...], future: bool | None) -> Period | None:
    """What dateparser makes of it. English phrases without any date word are not shown to it: it guesses too much."""
    if _NUMBER_ONLY.fullmatch(phrase) or not languages:
        return None
    if set(languages) == {"en"} and not _ENGLISH_DATE.search(phrase):
        return None
    from dateparser.date import DateDataParser  # slow to import, rarely needed

    settings = {
        "RELATIVE_BASE": datetime.combine(today, time.min),
        "PREFER_DATES_FROM": "future" if future else "past",
        "PREFER_DAY_OF_MONTH": "first",
        "RETURN_TIME_AS_PERIOD": True,
    }
    try:
        data = DateDataParser(languages=list(languages), settings=settings).get_date_data(phrase)
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        return None  # malformed phrases break the library in several ways
    moment = data.date_obj
    if moment is None:
        return None
    return _period(moment, _PERIODS.get(data.period or "", Precision.YEAR))


def _period(moment: datetime, precision: Precision) -> Period | None:
    try:
        if precision is Precision.MINUTE:
            single = day(moment.date())
            return Period(single.start, single.end, precision, moment.time())
        if precision is Precision.MONTH:
            return month(moment.year, moment.month)
        if precision is Precision.YEAR:
            return year(moment.year)
        return week_of(moment.date()) if precision is Precision.WEEK else day(moment.date())
    except (ValueError, OverflowError):
        return None


def _span(period: Period, zone: ZoneInfo, clock: tzinfo) -> TimeSpan:
    """The period's ends at midnight of the zone (or the one minute of its time of day by the clock) in UTC."""
    try:
        if period.at is not None:
            moment = datetime.combine(period.start, period.at.replace(second=0, microsecond=0), clock)
            start = moment.astimezone(UTC)
            return _checked(start, start + timedelta(minutes=1), period.precision)
        start = datetime.combine(period.start, time.min, zone).astimezone(UTC)
        end = datetime.combine(period.end, time.min, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return UNKNOWN_TIME
    return _checked(start, end, period.precision)


def _checked(start: datetime, end: datetime, precision: Precision) -> TimeSpan:
    if not plausible(start) or not plausible(end) or end < start:
        return UNKNOWN_TIME
    return TimeSpan(start, end, precision)
