"""The wordings that set a state, as patterns that capture its value and perhaps the old one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.words.english import OCCUPATIONS, PETS, RELATIVES


@dataclass(frozen=True, slots=True)
class Rule:
    """One wording, and what it says beyond its value."""

    attribute: str
    pattern: re.Pattern[str]
    change: Change = Change.NONE
    polarity: Polarity | None = None
    modality: Modality | None = None


_STOPS = (
    r"and|but|because|since|for|with|when|where|while|which|that|who|so|after|before|until|as|last"
    r"|next|this|these|about|around|now|then|today|tomorrow|yesterday|right|if|or|two|three|four"
    r"|five|six|a\s+(?:few|couple|year|month|week|day)|\d|by|though|although|during|again|anymore"
    r"|recently|too|even|already|soon|later|ago|back|from|to|in|on|at|is|was|are|just|together"
    r"|every|full|once|lately|since|all|i|he|she|they|we|have|has|will"
)
_HEAD = rf"(?:(?!(?:{_STOPS})\b)[\w&$€£%’'+-]+)"
PLACE = (
    r"(?:(?:the|a|an|my|our|his|her|their)\s+)?"
    rf"(?P<value>{_HEAD}(?:(?:\s+of|\s+the)?\s+{_HEAD}){{0,4}}(?:,\s+[A-Z][\w]+(?:\s+[A-Z]\w+)?)?)"
)
THING = rf"(?:(?:the|a|an|my|our|some)\s+)?(?P<value>{_HEAD}(?:\s+(?:of\s+|the\s+)?{_HEAD}){{0,5}})"
ROLE = rf"(?:(?:the|a|an|their)\s+)?(?P<value>{_HEAD}(?:\s+(?:of\s+|at\s+|for\s+)?{_HEAD}){{0,6}})"
_FROM = PLACE.replace("(?P<value>", "(?P<prev>")
_LATER = PLACE.replace("(?P<value>", "(?P<prev2>")
_OCCUPATIONS = "|".join(OCCUPATIONS)
_PETS = "|".join(PETS)
_SOLID = "car|house|apartment|condo|bike|motorcycle|boat|truck|van|laptop|phone|guitar|piano|camera"
_NUMBER = r"(?:\d{1,3}|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty)(?:[- ][a-z]+)?)"
_NAME = r"(?P<value>[A-Z][\w&-]*(?:\s+[A-Z][\w&-]+){0,2})"
_CLUBS = (
    "club|gym|team|party|choir|band|league|church|society|group|orchestra|facebook|instagram|twitter|reddit|discord"
)
_EMPLOYER = (
    rf"(?!(?:[A-Z][\w&-]*\s+){{0,3}}(?i:{_CLUBS})\b){_NAME}(?![\w&'’-])(?!\s+[A-Z])(?!\s+(?:for|on|at|to)\b)"
    rf"(?!\s+(?:{_CLUBS})\b)"
)
_AMOUNT = r"(?P<value>[$€£]?\d[\d.,:/]*\d?\s?(?:kg|kilos?|lbs?|pounds|cm|meters|m|km|miles|bpm|%|k)?)"


def _rule(
    attribute: str,
    pattern: str,
    change: Change = Change.NONE,
    polarity: Polarity | None = None,
    modality: Modality | None = None,
    case: bool = False,
) -> Rule:
    flags = re.NOFLAG if case else re.IGNORECASE
    return Rule(attribute, re.compile(rf"\b{pattern}", flags), change, polarity, modality)


RULES = (
    _rule("residence", rf"(?:moved|relocated)(?:\s+back)?\s+from\s+{_FROM}\s+(?:back\s+)?to\s+{PLACE}", Change.SWITCH),
    _rule(
        "residence",
        r"moved\s+(?:in)?to\s+(?:(?:my|our|an?|the)\s+)?(?:[\w-]+\s+){0,2}"
        rf"(?:flat|apartment|house|place|home|studio|room|condo)\s+in\s+{PLACE}",
        Change.SWITCH,
    ),
    _rule("residence", rf"(?:moved|relocated)(?:\s+\w+)?\s+(?:in)?to\s+{PLACE}(?:\s+from\s+{_LATER})?", Change.SWITCH),
    _rule(
        "residence",
        rf"(?:moving|relocating|move|relocate)(?:\s+back)?\s+to\s+{PLACE}(?:\s+from\s+{_LATER})?",
        Change.SWITCH,
        modality=Modality.PLANNED,
    ),
    _rule("residence", rf"used to (?:live|reside)\s+in\s+{PLACE}", Change.STOP),
    _rule("residence", rf"(?:no longer|don['’]t|doesn['’]t) lives?\s+in\s+{PLACE}", Change.STOP),
    _rule("residence", r"(?:no longer|don['’]t|doesn['’]t) lives?\s+there\b(?P<value>)", Change.STOP),
    _rule("residence", rf"moved\s+(?:out of|away from)\s+{PLACE}", Change.STOP),
    _rule("residence", rf"settled(?: down)?\s+(?:in|near)\s+{PLACE}", Change.SWITCH),
    _rule("residence", rf"(?:lives?|living|reside[sd]?|residing|based)\s+(?:in|near)\s+{PLACE}"),
    _rule("residence", rf"(?:have|has|['’]ve|['’]s|been)\s+lived\s+in\s+{PLACE}"),
    _rule("former residence", rf"lived\s+in\s+{PLACE}"),
    _rule("hometown", rf"(?:grew up|(?:was |were )?(?:born|raised)(?: and raised)?)\s+in\s+{PLACE}"),
    _rule("hometown", rf"(?:am|['’]m|is|comes?)\s+(?:originally\s+)?from\s+{PLACE}"),
    _rule("hometown", rf"(?:hometown|home town) is\s+{PLACE}"),
    _rule(
        "job",
        r"(?:quit|left|leaving|quitting|lost|resigned from|retired from|laid off from|fired from)\s+"
        rf"(?:(?:my|his|her|the|their)\s+)?(?:\w+\s+)?(?:job|position|role|work)(?:\s+(?:at|as|with)\s+{ROLE})?",
        Change.STOP,
    ),
    _rule("job", rf"(?:used to|no longer|don['’]t|doesn['’]t)\s+works?\s+(?:at|for|as)\s+{ROLE}", Change.STOP),
    _rule("job", rf"(?:stopped|quit)\s+working\s+(?:at|for|as)\s+{ROLE}", Change.STOP),
    _rule("job", r"(?:no longer|don['’]t|doesn['’]t|stopped|quit)\s+work(?:s|ing)?\s+there\b(?P<value>)", Change.STOP),
    _rule(
        "job",
        rf"(?:resigned|retired|(?:got|was|been)\s+(?:laid off|fired|let go|sacked|made redundant)"
        rf"|handed in (?:my|his|her|their) (?:notice|resignation))(?:\s+(?:from|at|by)\s+{ROLE})?",
        Change.STOP,
    ),
    _rule(
        "job",
        r"(?<!to )quit(?P<value>)(?=\s*(?:[.!,;]|$)|\s+(?:last|this|yesterday|today|on|in|two|three"
        r"|a (?:few|week|month)|and|because|after)\b)",
        Change.STOP,
    ),
    _rule(
        "job",
        rf"(?:left|quit)\s+{_NAME}(?=\s*(?:[.!;]|$)|\s+(?:in|last|this|two|three|a|and|to join|for|after)\b)"
        r"(?!.*\b(?:moved|live|living|settled|relocated|trip|flight|train)\b)",
        Change.STOP,
        case=True,
    ),
    _rule("job", rf"joined\s+{_EMPLOYER}", Change.START, case=True),
    _rule("job", rf"(?:join|joining)\s+{_EMPLOYER}", Change.START, modality=Modality.PLANNED, case=True),
    _rule(
        "job",
        r"(?:start|begin)s?\s+(?:(?:(?:a|my|the|his|her)\s+)?(?:\w+\s+)?(?:job|position|role|internship)\s+"
        rf"(?:at|as|with|for)|working\s+(?:at|for|as)|at|as)\s+{ROLE}",
        Change.START,
        modality=Modality.PLANNED,
    ),
    _rule(
        "job",
        r"(?:started|got|landed|accepted|took|found|starting|began|taking)\s+"
        r"(?:(?:a|an|my|the|his|her)\s+)?(?:\w+\s+)?(?:job|position|role|internship)\s+"
        rf"(?:offer\s+)?(?:at|as|with|for)\s+{ROLE}",
        Change.START,
    ),
    _rule("job", rf"(?:started|began|starting)\s+working\s+(?:at|for|as)\s+{ROLE}", Change.START),
    _rule("job", rf"(?:started|starting)\s+(?:at|as)\s+{ROLE}", Change.START),
    _rule("job", rf"(?:got\s+|was\s+|been\s+)?promoted\s+to\s+{ROLE}", Change.SWITCH),
    _rule("job", rf"(?:got|was|been)\s+hired\s+(?:by|at|as)\s+{ROLE}", Change.START),
    _rule(
        "job",
        rf"(?:works?|working|worked)(?:\s+(?:from home|remotely|(?:part|full)[- ]time))?\s+(?:at|for|as)\s+{ROLE}",
    ),
    _rule("job", rf"(?:am|['’]m|is|became|['’]s)\s+an?\s+(?P<value>(?:[\w-]+\s+){{0,3}}(?:{_OCCUPATIONS}))\b"),
    _rule("age", rf"(?:turned|turning|turns|turn)\s+(?P<value>{_NUMBER})\b(?!\s*(?:%|into|minutes))"),
    _rule("age", rf"(?:am|['’]m|is|was)\s+(?P<value>{_NUMBER})(?=\s+years?[ -]old|\s+now\b|[.!]?$)"),
    _rule("age", rf"(?P<value>{_NUMBER})[- ]years?[- ]old"),
    _rule(
        "pet",
        r"(?:(?:have|has|['’]ve|['’]s) got|have|has|had|owns?)\s+"
        rf"(?:an?|our|another|two|three|the|my)\s+(?P<value>(?:[\w-]+\s+){{0,3}}?(?:{_PETS})s?\b"
        r"(?:,?\s+(?:named|called)\s+\w+)?)",
    ),
    _rule(
        "pet",
        r"(?:adopted|got|bought|rescued|getting|adopting|adopt|get)\s+"
        rf"(?:an?|our|another|two|three|the|my)\s+(?P<value>(?:[\w-]+\s+){{0,3}}?(?:{_PETS})s?\b"
        r"(?:,?\s+(?:named|called)\s+\w+)?)",
        Change.START,
    ),
    _rule(
        "pet",
        rf"(?:my|our)\s+(?P<value>(?:{_PETS})(?:\s+\w+|,\s+\w+,)?)\s+(?:died|passed away|ran away|was put down)\b",
        Change.STOP,
    ),
    _rule("pet", rf"(?:gave|give|given)\s+(?:my|our|the)\s+(?P<value>(?:{_PETS})(?:\s+\w+)?)\s+away\b", Change.STOP),
    _rule(
        "pet", rf"(?:gave away|rehomed|lost)\s+(?:my|our|the)\s+(?P<value>(?:{_PETS})(?:\s+[A-Z]\w+)?)\b", Change.STOP
    ),
    _rule(
        "pet name",
        rf"(?:(?:{_PETS})(?:['’]s name is| is (?:named|called)| (?:named|called))|named (?:him|her|it))"
        r"\s+(?P<value>[A-Z]\w+)",
    ),
    _rule("possession", r"(?:sold|gave away|lost|traded in)\s+" + THING, Change.STOP),
    _rule(
        "possession",
        rf"(?:my|our)\s+(?P<value>(?:[\w-]+\s+){{0,2}}?(?:{_SOLID}))\s+(?:was|got)\s+(?:stolen|totall?ed|wrecked|destroyed)\b",
        Change.STOP,
    ),
    _rule("possession", r"(?:bought|purchased)\s+" + THING, Change.START),
    _rule(
        "possession",
        rf"(?:own|owns|have|has|had|owned|got|drives?|rides?)\s+an?\s+(?P<value>(?:[\w-]+\s+){{0,3}}?(?:{_SOLID})\b)",
    ),
    _rule("possession", r"(?:drive|drives)\s+an?\s+(?P<value>(?:[a-z-]+\s+){0,2}[A-Z][\w-]+)", case=True),
    _rule("relationship", r"(?:got|am|['’]m|is|are|getting)\s+(?P<value>divorced|separated)\b", Change.STOP),
    _rule("relationship", r"(?:started|began)\s+(?P<value>dating\s+(?:a\s+)?\w+)\b", Change.START),
    _rule(
        "relationship",
        r"(?:got|am|['’]m|is|are|['’]re|getting|been)\s+(?P<value>(?:married|engaged)(?:\s+to\s+\w+)?"
        r"|single|widowed|dating\s+(?:a\s+)?\w+)\b",
    ),
    _rule(
        "relationship", r"(?P<value>(?:broke|split) up(?:\s+with\s+(?:my\s+)?\w+)?|married\s+[A-Z]\w+)", Change.START
    ),
    _rule("name", r"my\s+(?:full\s+|first\s+|last\s+)?name(?:\s+is|['’]s)\s+(?P<value>[\w’'-]+(?:\s+[A-Z][\w’'-]+)?)"),
    _rule("name", r"(?:call me|go by|goes by)\s+(?P<value>[A-Z]\w+)", case=True),
    _rule("weight", rf"(?:weigh|weighs|weighed)\s+(?:about\s+|around\s+)?{_AMOUNT}"),
    _rule("height", r"(?:am|['’]m|is)\s+(?P<value>\d[\d.'’,]*\s?(?:cm|m|feet|ft|foot)?(?:\s?\d+)?)\s+tall\b"),
    _rule(
        "diet",
        r"(?:am|['’]m|is|became|went|been|turned)\s+(?:\w+\s+)?(?P<value>vegetarian|vegan|pescatarian"
        r"|gluten[- ]free|lactose intolerant)\b",
    ),
    _rule("allergy", r"allergic\s+to\s+" + THING),
    _rule(
        "preference", r"(?:hates?|dislikes?|can['’]t stand|despises?|detests?)\s+" + THING, polarity=Polarity.NEGATIVE
    ),
    _rule(
        "preference",
        r"(?:don['’]t|doesn['’]t|do not|does not|never)\s+(?:really\s+)?(?:liked?|enjoy(?:ed)?|loved?)\s+"
        r"(?:to\s+)?" + THING,
        polarity=Polarity.NEGATIVE,
    ),
    _rule(
        "preference",
        r"(?<!would )(?<!['’]d )(?<!feel )(?<!look )(?<!sound )(?<!seem )"
        r"(?:loves?|likes?|enjoys?|adores?|prefers?)\s+(?:to\s+)?(?!to\b|it\b|that\b|this\b"
        r"|you\b|how\b|them\b)" + THING,
    ),
    _rule(
        "activity",
        r"(?:stopped|quit|gave up|given up|quitting)\s+(?P<value>\w+ing(?:\s+" + _HEAD + r"){0,3})",
        Change.STOP,
    ),
    _rule(
        "activity", r"(?:started|began|took up|taken up)\s+(?P<value>\w+ing(?:\s+" + _HEAD + r"){0,3})", Change.START
    ),
)
MEASURED = re.compile(
    r"\b(?:my|our)\s+(?P<what>weight|height|blood pressure|resting heart rate|heart rate|cholesterol"
    r"|salary|rent|budget|\w+ (?:record|time|score|budget|goal)|score|mortgage|phone number|age)"
    r"\s+(?:is|was|went down to|went up to|dropped to|rose to|increased to|is now|is about|=)"
    rf"\s+(?:now\s+|about\s+|around\s+)?{_AMOUNT}",
    re.IGNORECASE,
)
FAVOURITE = re.compile(
    rf"\b(?P<what>favou?rite\s+(?:\w+\s+)?\w+)\s+(?:is|are|was)\s+(?:now\s+|probably\s+)?{THING}", re.IGNORECASE
)
RELATIVE_NAMED = re.compile(
    rf"\b[Mm]y\s+(?:\w+\s+)?(?P<what>{RELATIVES})(?:['’]s name is| is named| is called|,| named"
    r"| called)?\s+(?P<value>[A-Z]\w+)\b(?!\s*['’]s)"
)
PROJECT = re.compile(
    r"\b(?:[Tt]he\s+|[Mm]y\s+|[Oo]ur\s+)?(?P<what>(?!The\b|My\b"
    r"|Our\b)(?:[A-Z][\w-]*\s+)+project|project\s+[A-Z][\w-]*)\s+(?:is|was|got"
    r"|has been|will be)\s+(?:now\s+|still\s+)?(?P<value>[\w%’'-]+(?:\s+[\w%’'-]+){0,6})"
)
SWITCHED = re.compile(
    rf"\b(?:switch|switched|switching|changed|changing|went)(?:\s+\w+)?\s+from\s+{_FROM}\s+to\s+{PLACE}", re.IGNORECASE
)
