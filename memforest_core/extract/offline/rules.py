"""The plain wordings that set a state: what follows the subject of a clause, and the kind of value after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.extract.offline import kinds
from memforest_core.extract.offline.kinds import Reader, alternatives

LOW_CERTAINTY = frozenset({"preference", "activity", "possession"})
"""Kinds of state that are read of the speaker alone."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One wording. Without a reader the wording itself has the value, or there is none."""

    attribute: str
    predicate: re.Pattern[str]
    """Matched right behind the subject; ``value`` may be a group of it, and ``not`` one that denies."""
    reader: Reader | None = None
    change: Change = Change.NONE
    polarity: Polarity = Polarity.POSITIVE
    modality: Modality = Modality.ASSERTED
    bare: bool = False
    """Whether it is also read at the head of a sentence without a subject ("Moved to Oslo")."""
    tail: re.Pattern[str] | None = None
    """What has to follow the value, where that is more than the end of a clause."""


_ADVERBS = (
    "just|really|also|still|now|currently|actually|finally|recently|already|always|officially|only|both|all|definitely|happily"
    "|usually|mostly|basically|honestly|proudly|absolutely|totally|truly|genuinely|newly|originally|simply|seriously|literally"
    "|personally|soon|lately|even|obviously|clearly|presently|permanently|sadly|luckily|do|too|sort of|kind of"
)
ADV = rf"(?:\s+(?:{_ADVERBS})\b)*"
BE = rf"(?:['’](?:m|re|s)|\s+(?:am|are|is))\b{ADV}"
HAVE = rf"(?:(?:['’](?:ve|s)|\s+(?:have|has)){ADV})?{ADV}"
WILL = rf"(?:(?:['’]ll|\s+will|\s+(?:am|are|is)\s+(?:going to|gonna)|['’](?:m|re|s)\s+(?:going to|gonna)))\b{ADV}"
NOT = rf"(?:{ADV}\s+(?:don['’]t|do\s+not|doesn['’]t|does\s+not)\b{ADV}(?:\s+really)?)"
_LONGER = rf"(?:\s+no\s+longer|{ADV}\s+(?:stopped|quit)(?=\s+\w+ing\b))"
_JOB = r"(?:(?:an?|my|his|her|the|our|their)\s+)?(?:(?!offer)[\w-]+\s+){0,2}?(?:job|position|role|internship|gig|apprenticeship)"
_PART = r"(?:\s+(?:part[- ]time|full[- ]time|remotely|from home|nights|freelance))?"
_NO_MORE = re.compile(r"\s*(?:there\s+)?(?:anymore|any\s+more|any\s+longer|now)\b", re.IGNORECASE)


def _rule(attribute: str, predicate: str, reader: Reader | None = None, **said: object) -> Rule:
    return Rule(attribute, re.compile(predicate, re.IGNORECASE), reader, **said)  # type: ignore[arg-type]


_STOPS = {"change": Change.STOP}
_STARTS = {"change": Change.START}
_SWITCHES = {"change": Change.SWITCH}
_PLANS = {"modality": Modality.PLANNED}


def _residence() -> list[Rule]:
    r, place = "residence", kinds.place
    origin = r"(?:\s+from\s+(?P<origin>[\w’'-]+(?:\s+[\w’'-]+){0,2}?))?"
    back = r"(?:\s+(?:back|over|out|down|up|here|house|all\s+the\s+way|in\s+with\s+my\s+\w+))?"
    return [
        _rule(r, rf"{ADV}\s+(?:lives?|resides?)\s+(?:(?:over|out|up|down|back|alone)\s+)?in\b", place),
        _rule(
            r,
            rf"{BE}\s+(?:living|residing|based|staying\s+permanently)\s+(?:(?:over|out|up|down)\s+)?in\b",
            place,
            bare=True,
        ),
        _rule(r, rf"{HAVE}\s+been\s+living\s+in\b", place),
        _rule(
            r,
            rf"(?:['’](?:ve|s)|\s+(?:have|has)){ADV}\s+lived\s+in\b",
            place,
            tail=re.compile(r"\s+(?:since|for|all|my\s+(?:whole|entire)|\w+\s+years)\b", re.I),
        ),
        _rule(r, rf"{HAVE}\s+(?:moved|relocated){back}{origin}\s+(?:in)?to\b", place, bare=True, **_SWITCHES),
        _rule(r, rf"{HAVE}\s+settled(?:\s+down)?\s+in\b", place, bare=True, **_SWITCHES),
        _rule(
            r,
            rf"(?:{BE}|{WILL}(?:\s+be)?)\s+(?:moving|relocating){back}{origin}\s+(?:in)?to\b",
            place,
            bare=True,
            **_SWITCHES | _PLANS,
        ),
        _rule(r, rf"(?:{WILL}|{ADV})\s+(?:moves?|relocates?){back}{origin}\s+(?:in)?to\b", place, **_SWITCHES | _PLANS),
        _rule(r, rf"{ADV}\s+used\s+to\s+(?:live|reside)\s+in\b", place, bare=True, **_STOPS),
        _rule(r, rf"{ADV}\s+lived\s+in\b", place, **_STOPS),
        _rule(r, rf"(?:{_LONGER}|{NOT})\s+(?:lives?|living|resides?)\s+(?:in\b|(?P<value>there\b))", place, **_STOPS),
        _rule(r, rf"{HAVE}\s+moved\s+(?:out\s+of|away\s+from)\b", place, bare=True, **_STOPS),
        _rule("hometown", rf"{BE}\s+(?:originally\s+)?from\b", place),
        _rule("hometown", rf"{ADV}\s+comes?\s+(?:originally\s+)?from\b", place),
        _rule(
            "hometown",
            rf"(?:\s+(?:was|were|am)\s+(?:born|raised)(?:\s+and\s+(?:raised|bred))?|\s+grew\s+up|\s+spent\s+(?:my|his|her|our)\s+(?:whole\s+|entire\s+)?childhood)\s+(?:in\b|(?=(?:on|near|outside)\b))",
            place,
            bare=True,
        ),
    ]


def _job() -> list[Rule]:
    j, firm, role, any_ = "job", kinds.employer, kinds.occupation, kinds.workplace
    return [
        _rule(j, rf"{BE}(?:\s+now)?(?:\s+working\s+as)?(?!\s+the\b)(?=\s)", role),
        _rule(
            j,
            rf"(?:{ADV}\s+works?|{BE}\s+(?:working|employed)|{HAVE}\s+been\s+working){_PART}\s+(?:at|for|with)\b",
            firm,
            bare=True,
        ),
        _rule(
            j, rf"(?:{ADV}\s+works?|{BE}\s+(?:working|employed)|{HAVE}\s+been\s+working){_PART}\s+as\b", role, bare=True
        ),
        _rule(j, rf"(?:{ADV}\s+works?|{BE}\s+working|{HAVE}\s+been\s+working){_PART}\s+in\b", kinds.field),
        _rule(
            j,
            rf"(?:['’](?:ve|s)|\s+(?:have|has)){ADV}\s+(?:been|worked\s+as)\b",
            role,
            tail=re.compile(r"\s+(?:since|for|\w+\s+years)\b", re.I),
        ),
        _rule(
            j,
            rf"(?:['’](?:ve|s)|\s+(?:have|has)){ADV}\s+worked\s+(?:at|for)\b",
            firm,
            tail=re.compile(r"\s+(?:since|for|\w+\s+years)\b", re.I),
        ),
        _rule(
            j,
            rf"{HAVE}\s+(?:started|began)(?:\s+(?:{_JOB}|work|working))?\s+(?:at|as|with|for)\b",
            any_,
            bare=True,
            **_STARTS,
        ),
        _rule(
            j,
            rf"{HAVE}\s+(?:got|gotten|landed|accepted|took|found|taken)\s+{_JOB}\s+(?:at|as|with|for)\b",
            any_,
            bare=True,
            **_STARTS,
        ),
        _rule(j, rf"{BE}\s+(?=the\b)", role, tail=re.compile(r"\s+(?:now|here|at|of|for)\b", re.I)),
        _rule(j, rf"{BE}(?=\s)", kinds.listed("standing"), bare=True),
        _rule(j, rf"{BE}(?=\s+(?:currently\s+)?studying\b)", kinds.studies, bare=True),
        _rule(j, rf"{HAVE}\s+joined\b", kinds.firm, bare=True, tail=_JOINED, **_STARTS),
        _rule(
            j,
            rf"{HAVE}\s+(?:became|become|qualified\s+as|(?:got\s+|was\s+|been\s+)?promoted\s+to)\b",
            role,
            bare=True,
            **_SWITCHES,
        ),
        _rule(j, rf"{HAVE}\s+(?:(?:got|was|were|been)\s+)?hired\s+(?:by|at|as)\b", any_, bare=True, **_STARTS),
        _rule(
            j,
            rf"(?:{WILL}|{ADV})\s+(?:start|begin)s?(?:\s+(?:{_JOB}|work|working))?\s+(?:at|as|with|for)\b",
            any_,
            **_STARTS | _PLANS,
        ),
        _rule(
            j,
            rf"(?:{BE}|{WILL}\s+be)\s+starting(?:\s+(?:{_JOB}|work))?\s+(?:at|as|with|for)\b",
            any_,
            bare=True,
            **_STARTS | _PLANS,
        ),
        _rule(j, rf"(?:{BE}\s+joining|{WILL}\s+(?:be\s+joining|join))\b", kinds.firm, tail=_JOINED, **_STARTS | _PLANS),
        _rule(j, rf"{WILL}\s+(?:be\s+working|work)\s+(?:at|for|as)\b", any_, **_STARTS | _PLANS),
        _rule(
            j,
            rf"{HAVE}\s+(?:quit|left|lost|resigned\s+from|retired\s+from)\s+(?:(?:my|his|her|the|their)\s+)(?:[\w-]+\s+)?"
            r"(?:job|position|role|work)(?P<value>\b)(?!\s+(?:at|as|with)\b)",
            bare=True,
            **_STOPS,
        ),
        _rule(
            j,
            rf"{HAVE}\s+(?:quit|left|lost|resigned\s+from)\s+(?:(?:my|his|her|the|their)\s+)?(?:[\w-]+\s+)?(?:job|position|role)\s+(?:at|as|with)\b",
            any_,
            bare=True,
            **_STOPS,
        ),
        _rule(
            j,
            rf"{HAVE}\s+(?:(?:got|was|were|been)\s+(?:laid\s+off|fired|let\s+go|sacked|made\s+redundant)|retired|resigned|handed\s+in\s+(?:my|his|her|their)\s+(?:notice|resignation))\s+(?:from|at|by)\b",
            firm,
            bare=True,
            **_STOPS,
        ),
        _rule(
            j,
            rf"{HAVE}\s+(?:(?:got|was|were|been)\s+(?:laid\s+off|fired|let\s+go|sacked|made\s+redundant)|resigned|handed\s+in\s+(?:my|his|her|their)\s+(?:notice|resignation))(?P<value>\b)(?!\s+(?:from|at|by)\b)",
            bare=True,
            **_STOPS,
        ),
        _rule(
            j,
            rf"{HAVE}\s+quit(?P<value>\b)(?=\s*(?:[.!,;]|$)|\s+(?:last|this|yesterday|today|on|in|two|three|a\s+(?:few|week|month)|and|because|after)\b)",
            bare=True,
            **_STOPS,
        ),
        _rule(
            j,
            rf"{HAVE}\s+(?:left|quit)\b(?!.*\b(?:moved|live|living|settled|relocated|trip|flight|train)\b)",
            kinds.firm,
            tail=re.compile(r"\s*(?:[.!;]|$)|\s+(?:in|last|this|two|three|a|and|to\s+join|for|after)\b"),
            **_STOPS,
        ),
        _rule(
            j,
            rf"(?:{_LONGER}|{NOT}|{ADV}\s+used\s+to)\s+(?:works?|working)\s+(?:(?:at|for|as)\b|(?P<value>there\b))",
            any_,
            bare=True,
            **_STOPS,
        ),
        _rule(j, rf"(?:{ADV}\s+used\s+to\s+be|{BE}\s+(?:no\s+longer|not))(?=\s)", role, **_STOPS),
    ]


_JOINED = re.compile(
    r"\s*(?:$|[.,;!])|\s+(?:as|in|last|this|next|two|three|a|and|yesterday|today|tomorrow|after|since|when)\b", re.I
)


def _person() -> list[Rule]:
    married = r"(?P<value>(?:married|engaged)(?:\s+to\s+(?-i:[A-Z])\w+)?|divorced|separated|widowed|single|dating\s+(?:a\s+\w+|(?-i:[A-Z])\w+)|seeing\s+someone|in\s+a\s+(?:long[- ]distance\s+)?relationship)\b(?!\s+(?:to|from|by|with)\b)(?!-)"
    return [
        _rule("age", rf"{BE}(?:\s+(?:almost\s+)?exactly)?(?=\s)", kinds.age, tail=_AGE_TAIL),
        _rule("age", rf"{BE}(?=\s+\d\d\s?(?:yo|y/o|yrs?|[fm]\b))", kinds.age, bare=True),
        _rule("name", rf"{BE}\s+(?:called|named)\b", kinds.name),
        _rule("age", rf"{HAVE}\s+turned\b", kinds.age, bare=True, tail=_AGE_TAIL),
        _rule(
            "age",
            rf"(?:{BE}\s+turning|{WILL}\s+(?:be|turn)|{ADV}\s+turns?)\b",
            kinds.age,
            bare=True,
            tail=_AGE_TAIL,
            **_SWITCHES | _PLANS,
        ),
        _rule(
            "relationship",
            rf"(?:{BE}(?:\s+(?:not|no\s+longer))?|{HAVE}\s+been)\s+(?:(?:newly|recently|happily|freshly)\s+)?{married}",
            bare=True,
        ),
        _rule("relationship", rf"{HAVE}\s+tied\s+the\s+knot(?P<value>\b)", **_STARTS),
        _rule(
            "relationship",
            rf"{HAVE}\s+got(?:ten)?\s+(?P<value>(?:re)?married(?:\s+to\s+(?-i:[A-Z])\w+)?|engaged(?:\s+to\s+(?-i:[A-Z])\w+)?|divorced)\b",
            bare=True,
        ),
        _rule(
            "relationship",
            rf"(?:{BE}\s+getting|{WILL}\s+(?:get|be\s+getting))\s+(?P<value>(?:re)?married|engaged|divorced)\b",
            bare=True,
            **_STARTS | _PLANS,
        ),
        _rule("relationship", rf"{HAVE}\s+(?P<value>married\s+(?-i:[A-Z])\w+)\b", **_STARTS),
        _rule(
            "relationship", rf"{HAVE}\s+(?:started|began)\s+(?P<value>dating\s+(?:a\s+)?\w+)\b", bare=True, **_STARTS
        ),
        _rule("relationship", rf"{HAVE}\s+(?:broke|broken|split)\s+up(?P<value>\b)", bare=True, **_STOPS),
        _rule(
            "weight",
            rf"(?:{ADV}\s+weighs?|{BE}\s+(?:(?:weighing\s+(?:in\s+)?at|down\s+to|up\s+to)|(?:at\s+)?(?=\d\S*\s?(?:kg|kilo|lb|pound|stone|st\b))))",
            kinds.weight,
            bare=True,
        ),
        _rule("height", rf"{BE}(?=\s)", kinds.height),
        _rule(
            "diet",
            rf"(?:{BE}(?:\s+(?:a|an|strictly|not|no\s+longer|not\s+an?))*|{HAVE}\s+been(?:\s+an?)?|{HAVE}\s+(?:became|become|went|gone|turned|going)(?:\s+an?)?)(?=\s)",
            kinds.listed("diet"),
            bare=True,
        ),
        _rule(
            "diet",
            rf"(?:{NOT}|\s+never|\s+(?:can['’]t|cannot))\s+(?:eat|touch|have)\b(?:\s+any)?",
            kinds.listed("food"),
            polarity=Polarity.NEGATIVE,
        ),
        _rule("diet", rf"{ADV}\s+(?:eats?|keeps?|follows?(?:\s+an?)?)\b", kinds.listed("diet")),
        _rule("diet", rf"(?:{NOT}|\s+never)\s+drinks?\b(?:\s+any)?", kinds.listed("drink"), polarity=Polarity.NEGATIVE),
        _rule("allergy", r"\s+(?:have|has)\s+no\s+allergy\s+to\b", kinds.allergen, polarity=Polarity.NEGATIVE),
        _rule(
            "allergy",
            rf"(?:{BE}(?:\s+(?:not|no\s+longer|badly|severely|deathly|very|highly|mildly|pretty|quite))*)\s+allergic\s+to\b",
            kinds.allergen,
            bare=True,
        ),
        _rule(
            "allergy",
            rf"{HAVE}(?:\s+(?:have|has|got))\s+an?\s+(?:(?:severe|bad|serious|mild|strong|nasty)\s+)?(?P<value>(?:{alternatives('allergen')}))\s+allergy\b",
        ),
    ]


_AGE_TAIL = re.compile(
    r"\s*(?:$|[,;!)]|\.(?!\d))|\s+(?:years?\s+old|now|today|already|and|but|lol|last|this|next|in|on|yesterday|tomorrow|soon|here|so)\b",
    re.I,
)


def _things() -> list[Rule]:
    owned = r"(?:have|has|['’]ve\s+got|['’]s\s+got|have\s+got|has\s+got)"
    verbs = r"(?:loves?|likes?|enjoys?|adores?|prefers?)"
    return [
        _rule("pet", rf"{NOT}\s+(?:have|own)(?:\s+any)?(?=\s)", kinds.animal),
        _rule("possession", rf"{NOT}\s+(?:have|own)(?:\s+any)?(?=\s)", kinds.goods),
        _rule("possession", rf"{BE}\s+(?:the\s+)?(?:proud|happy)\s+owner\s+of\b", kinds.goods, bare=True),
        _rule("pet", rf"(?:{ADV}\s+{owned}|['’](?:ve|s)\s+got|{ADV}\s+owns?)(?=\s)", kinds.animal),
        _rule(
            "pet",
            rf"{HAVE}\s+(?:adopted|got|gotten|bought|rescued)(?:\s+(?:myself|ourselves))?(?=\s)",
            kinds.animal,
            bare=True,
            **_STARTS,
        ),
        _rule(
            "pet",
            rf"(?:{BE}\s+(?:getting|adopting)|{WILL}\s+(?:get|adopt|be\s+getting))(?=\s)",
            kinds.animal,
            bare=True,
            **_STARTS | _PLANS,
        ),
        _rule(
            "pet",
            rf"{HAVE}\s+(?:gave\s+away|given\s+away|rehomed|lost|gave|given)\s+(?:my|our|the)\b",
            kinds.own_animal,
            bare=True,
            tail=re.compile(r"\s*(?:$|[.,;!])|\s+(?:away|up|in|last|this|yesterday|to)\b"),
            **_STOPS,
        ),
        _rule(
            "possession", rf"(?:{ADV}\s+{owned}|['’](?:ve|s)\s+got|{ADV}\s+(?:owns?|drives?|rides?))(?=\s)", kinds.goods
        ),
        _rule(
            "possession",
            rf"{HAVE}\s+(?:bought|purchased|got)(?:\s+(?:myself|ourselves))?(?=\s)",
            kinds.goods,
            bare=True,
            **_STARTS,
        ),
        _rule(
            "possession",
            rf"{HAVE}\s+(?:sold|gave\s+away|traded\s+in|given\s+away|crashed|totall?ed)(?=\s)",
            kinds.goods,
            bare=True,
            **_STOPS,
        ),
        _rule("preference", rf"{ADV}\s+{verbs}(?:\s+(?:to\s+eat|eating|drinking))?\b", kinds.liked, bare=True),
        _rule(
            "preference", rf"{BE}(?:\s+(?:a|an|such\s+a))?(?:\s+(?:big|huge|massive|real))?\s+fan\s+of\b", kinds.liked
        ),
        _rule(
            "preference",
            rf"{ADV}\s+(?:hates?|dislikes?|despises?|detests?|loathes?|can['’]t\s+stand|cannot\s+stand|can['’]t\s+bear)\b",
            kinds.liked,
            polarity=Polarity.NEGATIVE,
        ),
        _rule(
            "preference",
            rf"(?:{NOT}|\s+never)\s+(?:likes?|liked|enjoy|loves?)\b",
            kinds.liked,
            polarity=Polarity.NEGATIVE,
        ),
        _rule(
            "preference",
            rf"{BE}\s+not(?:\s+(?:a|much\s+of\s+a|really\s+a))?(?:\s+(?:big|huge))?\s+fan\s+of\b",
            kinds.liked,
            polarity=Polarity.NEGATIVE,
        ),
        _rule("activity", rf"(?:{NOT}\s+(?:play|do)|{ADV}\s+(?:plays?|practi[cs]es?|does|do))(?=\s)", kinds.instrument),
        _rule(
            "activity",
            rf"(?:{ADV}\s+(?:sings?|plays?|dances?)|{BE}\s+(?:singing|playing|dancing))\s+(?:in|with|for)\b",
            kinds.ensemble,
        ),
        _rule(
            "activity",
            rf"(?:{BE}|{HAVE}\s+been)\s+(?:learning|playing|doing|practi[cs]ing)(?:\s+(?:to\s+play|how\s+to\s+play))?(?=\s)",
            kinds.instrument,
        ),
        _rule("activity", rf"{ADV}\s+spends?\s+(?:every|most|my|his|her)\s+(?:\w+\s+)?\w+(?=\s)", kinds.instrument),
        _rule("activity", rf"(?:{BE}|{HAVE}\s+been)(?=\s+(?:learning|studying)\b)", kinds.learning, bare=True),
        _rule("activity", rf"{HAVE}\s+(?:started|began)(?=\s+learning\b)", kinds.learning, bare=True, **_STARTS),
        _rule(
            "activity",
            rf"(?:{ADV}\s+goes?|{BE}\s+(?:really\s+)?into|{HAVE}\s+(?:started|began|took\s+up|taken\s+up|gotten\s+into|got\s+into)(?:\s+(?:doing|playing|learning|with))?)(?=\s)",
            kinds.instrument,
            bare=True,
        ),
        _rule(
            "activity",
            rf"(?:{HAVE}\s+(?:stopped|quit|gave\s+up|given\s+up)|{_LONGER})(?:\s+(?:doing|playing))?(?=\s)",
            kinds.listed("hobby", "instrument", "habit"),
            bare=True,
            **_STOPS,
        ),
        *(
            _rule(
                "activity",
                rf"(?:{NOT}\s+{verb}|{ADV}\s+{verb}s?)\b(?=\s*(?:$|[.,;!])|\s+(?:every|twice|once|three|a\s+lot|daily|weekly|regularly|on\s+\w+days?|competitively)\b)",
                _said(act),
            )
            for verb, act in (pair.split("=") for pair in sorted(kinds.words("exercise verb")))
        ),
    ]


def _said(value: str) -> Reader:
    """A reader of what the wording itself says."""
    return lambda text, at: kinds.Reading(value, at)


@cache
def rules() -> tuple[Rule, ...]:
    """All wordings; the first that matches at a place counts."""
    return (*_residence(), *_job(), *_person(), *_things())


_WHAT = (
    r"(?:(?:new|current|actual)\s+)?(?P<what>weight|height|blood pressure|resting heart rate|heart rate|cholesterol|salary|rent|budget"
    r"|\w+ (?:record|time|score|budget|goal)|score|mortgage|phone number|(?:[a-z]+ )?(?:code|pin|password|passcode))"
)
_IS = r"\s+(?:is|was|went\s+down\s+to|went\s+up\s+to|dropped\s+to|rose\s+to|increased\s+to|=)"
MEASURED = re.compile(rf"(?:my|our|the)\s+{_WHAT}{_IS}", re.IGNORECASE)
AGED = re.compile(r"(?:my|our)\s+age\s+is\b", re.IGNORECASE)
WEIGHING = re.compile(
    r"(?:my\s+(?:current\s+)?weight(?:\s+(?:is|was))?|weight)(?:\s+(?:now|today|this\s+morning))?\s*(?::|\bis\b|(?<=is)|(?<=was))",
    re.IGNORECASE,
)
HOMETOWN = re.compile(r"(?:my\s+)?home\s?town(?:\s+is|['’]s|\s*:)", re.IGNORECASE)
ALLERGIES = re.compile(r"(?:my\s+)?allerg(?:y|ies)(?:\s+(?:is|are)|\s*:)", re.IGNORECASE)
PET_OWNED = re.compile(
    rf"(?:my|our)\s+(?P<value>(?:{alternatives('pet')})(?:,?\s+(?!is|has|was|and|will|just|who)[\w’'-]+)?)(?=,|['’]s\s+(?!name|\w+\s+(?:is|was))|\s+(?:is|has|keeps|needs|loves|likes|hates|sleeps|eats|just|always|still|won['’]t|doesn['’]t)\b)",
    re.IGNORECASE,
)
FAVOURED = re.compile(
    r"(?P<value>[\w-]+(?:\s[\w-]+)?)\s+(?:is|are)\s+(?:my|our)\s+(?:all[- ]time\s+)?(?P<what>favou?rite\s+(?:\w+\s+)?\w+)",
    re.IGNORECASE,
)
FAVOURITE = re.compile(
    r"(?:my|our)\s+(?:all[- ]time\s+)?(?P<what>favou?rite\s+(?:\w+\s+)?\w+)\s+(?:is|are)(?:\s+(?:now|probably|still))?\b",
    re.IGNORECASE,
)
NAMED = re.compile(
    r"(?:my\s+(?:full\s+|first\s+|last\s+|real\s+)?name(?:\s+is|['’]s)|name['’]s|(?:please\s+)?call\s+me|i\s+go\s+by|(?:people|friends|everyone)\s+calls?\s+me)\b",
    re.IGNORECASE,
)
_OWN = r"(?:my|our)\s+"
_CALLED = r"(?:['’]s\s+name\s+is|\s+is\s+(?:named|called))\s+(?P<value>(?-i:[A-Z])[\w’'-]+)"
PET_NAMED = re.compile(rf"{_OWN}(?:{alternatives('pet')}){_CALLED}", re.IGNORECASE)
RELATIVE_NAMED = re.compile(rf"{_OWN}(?P<what>(?:{alternatives('person')})){_CALLED}", re.IGNORECASE)
PET_LOST = re.compile(
    rf"{_OWN}(?P<value>(?:{alternatives('pet')})(?:,?\s+(?-i:[A-Z])\w+,?)?)\s+(?:died|passed\s+away|ran\s+away|was\s+put\s+down|got\s+run\s+over)\b",
    re.IGNORECASE,
)
GOODS_LOST = re.compile(
    rf"{_OWN}(?P<value>(?:[\w-]+\s+){{0,2}}?(?:{alternatives('goods')}))\s+(?:was|got)\s+(?:stolen|totall?ed|wrecked|destroyed)\b",
    re.IGNORECASE,
)
PROJECT = re.compile(
    r"(?:[Tt]he\s+|[Mm]y\s+|[Oo]ur\s+)?(?P<what>(?!The\b|My\b|Our\b)(?:[A-Z][\w-]*\s+)+project|project\s+[A-Z][\w-]*)"
    r"\s+(?:is|was|got|has been|will be)\s+(?:now\s+|still\s+)?(?P<value>[\w%’'-]+(?:\s+[\w%’'-]+){0,6})"
)
