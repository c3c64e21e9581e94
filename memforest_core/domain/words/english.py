"""The words of English."""

from __future__ import annotations

import re

from memforest_core.domain.periods import MONTH, SEASON, UNIT, WEEKDAY, YEAR
from memforest_core.domain.words.records import (
    Attribute,
    FollowUpWords,
    NowWords,
    OrderWords,
    SeriesWords,
    Wording,
    WordList,
    Words,
)

_OCCUPATION_WORDS = """
    nurse teacher engineer developer programmer doctor lawyer designer accountant chef cook writer artist
    musician scientist researcher student manager consultant architect dentist pharmacist electrician plumber
    carpenter mechanic pilot driver journalist editor photographer librarian professor therapist psychologist
    veterinarian vet barista waiter waitress cashier analyst freelancer firefighter paramedic physician surgeon
    realtor translator actor actress biologist chemist physicist economist entrepreneur counselor technician
    administrator salesperson baker teller porter guide archivist cataloguer clerk farmer gardener tutor coach
    intern trainee tailor butcher hairdresser caretaker
"""
OCCUPATIONS = tuple(_OCCUPATION_WORDS.split())
"""Words for what somebody works as."""
_PET_WORDS = """
    dog puppy cat kitten tomcat hamster parrot rabbit bunny turtle tortoise goldfish fish snake lizard horse
    pony bird ferret labrador beagle poodle corgi husky dachshund terrier spaniel hen beetle canary budgie
    hedgehog
"""
PETS = (*_PET_WORDS.split(), "guinea pig", "golden retriever")
"""Words for animals that people keep."""
RELATIVES = (
    "mom|mum|mother|dad|father|sister|brother|wife|husband|partner|girlfriend|boyfriend|son"
    "|daughter|fiancée?|grandma|grandmother|grandpa|grandfather|aunt|uncle|cousin|nephew|niece"
    "|roommate|flatmate|boss|manager|colleague|coworker|neighbou?r|best friend|friend|parents"
    "|kids|children|in-laws"
)
"""Words for people whom others are said to have, as alternatives of a regular expression."""

_ORDER = OrderWords(
    sides=(re.compile(r"\b(?P<word>before|prior\s+to|after)\b(?P<rest>[^?.!;]*)", re.I),),
    after=("after",),
    between=re.compile(r"\b(?:in\s+)?between\s+(?P<one>[^?.!;]+?)\s+and\s+(?P<other>[^?.!;,]+)", re.I),
    duration=re.compile(
        rf"\bhow\s+(?:long(?!\s+(?:is|are|was|were)\s+the\s+(?!gap|time|period|break))|much\s+time|many\s+{UNIT}s)\b(?!\s+ago\b)(?P<rest>[^?.!;]*)",
        re.I,
    ),
    before_words=re.compile(
        r"\b(?:previous(?:ly)?|prior|former(?:ly)?|used?\s+to(?=\s+\w)|earlier|ex-(?=\w)|in\s+the\s+past|no\s+longer|anymore)\b",
        re.I,
    ),
    after_words=re.compile(
        r"\b(?:afterwards?|later(?!\s+(?:(?:on|in)\s+the|that)\b)(?:\s+on)?|subsequent(?:ly)?|following\s+that|next(?=\W*$))\b",
        re.I,
    ),
    first_words=re.compile(
        r"\b(?:first(?!\s+(?:names?|aid|class|floor|grade|language|lady|sight|hand|and\s+foremost)\b)|original(?:ly)?|initial(?:ly)?"
        r"|at\s+the\s+(?:very\s+)?(?:beginning|start|outset)|to\s+begin\s+with|earliest)\b",
        re.I,
    ),
    latest_words=re.compile(
        r"\b(?:(?<!at\s)last(?!\s+(?:names?|seasons?|longer|minute|long|for)\b)(?!\W*$)|latest|most\s+recent(?:ly)?|current(?:ly)?|(?:right\s+)?now(?!here)"
        r"|nowadays|these\s+days|at\s+(?:the\s+moment|present)|presently|still|as\s+of\s+today|newest)\b",
        re.I,
    ),
    habit=re.compile(
        r"(?:(?:the|my|her|his|their)\s+)?(?:bed(?:time)?|breakfast|lunch|dinner|supper|work|school|class|sleep(?:ing)?|noon|midnight"
        r"|dawn|dusk|sunset|sunrise|dark|all|long|hours|meals?|(?:a|some)\s+(?:long\s+|little\s+)?(?:time|while|break)|that|this|it|then|these|those|now|day)\W*$",
        re.I,
    ),
    dated=re.compile(rf"(?:the\s+)?(?:{SEASON}|{MONTH}|{WEEKDAY}|{YEAR})\W*", re.I),
    back=re.compile(r"(?:that|this|it|then)", re.I),
    clause_end=re.compile(r"[?.!;]|\s+(?:and|or|but)\s+(?:before|after|then)\b|\s+(?:before|after)\s+", re.I),
    inverted=re.compile(
        r",|\s+(?:where|what|who|whom|which|how|when|why)\b|\s+(?:did|do|does|was|were|is|are|has|have|had)\s+(?:i|you|he|she|it|we|they|my|his|her|our|their|the|[A-Z]\w*)\b"
    ),
    other_sense=re.compile(
        r"\b(?:look\w*|nam(?:e|ed|ing)|tak(?:e|es|en|ing)|took|running|chas\w+|call(?:ed)?|day|week|time)\s+after$",
        re.I,
    ),
    not_time_between=re.compile(
        r"\b(?:differen\w+|relation\w*|cho(?:o|i|s)\w+|decid\w+|decision|distance|split\w*|balanc\w+|connection|torn|similar\w*"
        r"|compar\w+|conversation|talks?|match|games?|fight|links?|agreement|deal|bond|common|alternat\w+|argument|discuss\w*|topics?)\b[^?.!,;]*$",
        re.I,
    ),
    after_and_before=re.compile(r"\bafter\s+(?P<one>[^?.!;,]+?)\s+(?:and|but)\s+before\s+(?P<other>[^?.!;,]+)", re.I),
    ends=re.compile(r"\bfrom\s+(?P<ends>.+)", re.I),
    pair=re.compile(r"^(?P<one>.+?)\s+(?:and|to|until|till)\s+(?P<other>.+)$", re.I),
    auxiliary=re.compile(
        r"\s*(?:(?:did|does|do|has|have|had|was|were|is|are|been|it|last|take|took|taken|passed|there|went\s+by|elapsed|lie|lay)\b\s*)*",
        re.I,
    ),
)

_PET_ALTERNATIVES = "|".join(PETS)
_THING_WORDS = "car|bike|bicycle|motorcycle|truck|van|boat|laptop|phone|camera|guitar|piano|house|apartment"
_WHO = r"\s.{1,60}?\s"
_PAIRED = "partner|husband|wife|boyfriend|girlfriend|spouse|fianc\u00e9e?"
_PLAIN = (
    (
        "residence",
        rf"\bwhere\s+(?:do|does){_WHO}(?:live|reside)\b|\bwhere(?:['\u2019]s|\s+(?:is|are|am)){_WHO}(?:living|based|residing)\b"
        rf"|\b(?:what|which)\s+(?:city|town|country|state|place|neighbou?rhood)\b.{{0,40}}?\b(?:do|does|is|are|am){_WHO}(?:live|living|based)\b",
    ),
    (
        "job",
        rf"\b(?:where|who|(?:what|which)\s+(?:company|firm))\s+(?:do|does){_WHO}work\b"
        rf"|\bwhat\s+(?:do|does){_WHO}do(?:\s+for\s+(?:a\s+living|work))?\s*\??$"
        rf"|\bwhere(?:['\u2019]s|\s+(?:is|are|am)){_WHO}(?:working|employed)\b",
    ),
    (
        "relationship",
        rf"\b(?:is|are|am){_WHO}(?:married|single|divorced|separated|engaged|dating|in\s+a\s+relationship)\b"
        rf"|\bwho(?:['\u2019]s|\s+(?:is|are|am)){_WHO}(?:dating|married\s+to|engaged\s+to|seeing)\b",
    ),
    (
        "pet",
        rf"\b(?:what|which|how\s+many)(?:\s+kind\s+of)?\s+(?:pets?|animals?|(?:{_PET_ALTERNATIVES})s?)\s+(?:do|does){_WHO}(?:have|own|keep)\b"
        rf"|\b(?:do|does){_WHO}(?:have|own)\s+(?:a|an|any)\s+(?:pets?|animals?|(?:{_PET_ALTERNATIVES})s?)\b",
    ),
    (
        "possession",
        rf"\b(?:what|which)(?:\s+kind\s+of)?\s+(?:{_THING_WORDS})s?\s+(?:do|does){_WHO}(?:have|own|drive|ride|use)\b"
        rf"|\b(?:do|does){_WHO}(?:have|own)\s+(?:a|an|any)\s+(?:{_THING_WORDS})s?\b",
    ),
    ("weight", r"\bhow\s+(?:much|heavy)\s+(?:do|does|is|am|are)(?:\s.{1,60})\bweigh\b"),
)
_PLAINLY = tuple((attribute, re.compile(pattern, re.I)) for attribute, pattern in _PLAIN)
_WORDS = (
    ("residence", r"live|lives|living|reside|residence|home|city|town|address|based"),
    ("job", r"job|work|works|working|profession|career|occupation|employed|employer|company|position"),
    ("employer", r"work|works|working|employer|company"),
    ("relationship", rf"relationship|dating|married|engaged|single|divorced|together|seeing|{_PAIRED}"),
    ("pet", rf"pets?|animals?|(?:{_PET_ALTERNATIVES})s?"),
    ("possession", rf"(?:{_THING_WORDS})s?|own|owns|drive|drives"),
    ("car", r"drive|drives|driving"),
    ("weight", r"weigh|weighs|weight"),
    ("status", r"project|status|progress"),
    ("diet", r"diet|vegetarian|vegan"),
)
_NAMED = tuple((attribute, re.compile(rf"\b(?:{words})\b", re.I)) for attribute, words in _WORDS)

_NOW_WORDS = NowWords(
    now=re.compile(
        r"\b(?:now|current(?:ly)?|still|nowadays|these\s+days|at\s+the\s+moment|at\s+present|presently|today|as\s+of\s+today)\b",
        re.I,
    ),
    still=re.compile(r"\bstill\b", re.I),
    not_now=re.compile(
        r"\b(?:did|was|were|had|will|would|going\s+to|plan(?:s|ning|ned)?\s+(?:to|on)|until\s+now|(?:from|by)\s+now)\b",
        re.I,
    ),
    plain=_PLAINLY,
    what_is=re.compile(
        r"\bwhat(?:['\u2019]s|\s+(?:is|are))\s+(?:my|our|[\w.-]+['\u2019]s?|the)\s+(?P<what>[^?.!;]{1,60})", re.I
    ),
    named=_NAMED,
)

_SERIES = SeriesWords(
    every=re.compile(
        r"\bhow\s+many\b|\b(?:which|what)\s+(?:(?:all|both|different|other)\s+)?(?:kinds|types|sorts)\s+of\b"
        r"|\b(?:which|what)\s+(?:(?:all|both|different|other)\s+)?(?:[\w-]+\s+){0,2}?"
        r"(?:\w+(?<!s)s(?<!is)(?<!us)|people|children|ones)\s+(?:has|have|had|did|does|do|was|were|are|that)\b"
        r"|\b(?:what|who)\s+(?:are|were)\s+(?:all|both|the\s+\w+s)\b|\bboth\b|\ball\s+(?:of\s+)?(?:the|his|her|their|my|our)\b"
        r"|\b(?:what|who|where)\s+(?:all|else)\b|\bwhich\s+(?:ones|of)\b|\b(?:list|name)\s+(?:all|the|every)\b|\beverything\b",
        re.I,
    ),
    often=re.compile(r"\bhow\s+(?:often|frequently|regularly)\b|\bhow\s+many\s+times\s+(?:a|per|each|every)\b", re.I),
    frequency=re.compile(
        r"\b(?:(?:once|twice|thrice|\w+\s+times|\w+\s+(?:days|nights|mornings|evenings|hours))\s+(?:a|an|per|each|every)\s+\w+"
        rf"|(?:every|each)\s+(?:single\s+|other\s+|second\s+|third\s+|\w+\s+)?(?:{WEEKDAY}|{MONTH}|{UNIT}s?|morning|evening|afternoon|weekend"
        rf"|spring|summer|autumn|fall|winter)|daily|weekly|fortnightly|monthly|yearly|hardly\s+ever|(?:{WEEKDAY})s)\b",
        re.I,
    ),
    happening="happen happened happening do does did go going on went take took place event news new up thing things",
    i="I",
    my="my",
    they=re.compile(r"\b(?:he|she|they|him|them)\b", re.I),
    theirs=re.compile(r"\b(?:his|her|their)\b", re.I),
    possessive=re.compile(r"['\u2019]s?(?!\w)"),
)

_FOLLOW_UP = FollowUpWords(
    backward=frozenset(
        {"he", "him", "his", "she", "her", "hers", "it", "its", "they", "them", "their", "theirs"}
        | {"these", "those", "ones", "same", "former", "latter", "such"}
    ),
    last=frozenset({"that", "there", "then", "this", "one", "else", "instead", "too"}),
    that=frozenset({"that", "this"}),
    before_that=frozenset(
        {"is", "was", "did", "does", "about", "after", "before", "of", "with", "from", "for", "like", "to", "by", "at"}
    ),
    periods=frozenset(
        {"morning", "afternoon", "evening", "night", "week", "weekend", "month", "year", "time"}
        | {"spring", "summer", "autumn", "fall", "winter"}
    ),
    openings=("and", "but", "or", "so", "then", "also", "what about", "how about", "why not", "what else", "who else"),
    elliptic_words=3,
)

WORDS = Words(
    language="english",
    spaced=True,
    first_person=WordList(frozenset({"i", "me", "my", "mine", "myself"})),
    ours=frozenset({"my", "our"}),
    relatives=RELATIVES,
    order=_ORDER,
    now=_NOW_WORDS,
    series=_SERIES,
    follow_up=_FOLLOW_UP,
    wordings={
        Attribute.RESIDENCE: Wording(
            "live living lived move moved reside residence city town home",
            "live lived move moved flat apartment house room rent settled relocated",
        ),
        Attribute.JOB: Wording(
            "job work worked profession career occupation employed position role post",
            "job work hired quit resigned promoted post train career employed intern fired " + " ".join(OCCUPATIONS),
        ),
        Attribute.PET: Wording("pet animal " + " ".join(PETS), "pet animal adopted shelter " + " ".join(PETS)),
        Attribute.WEIGHT: Wording("weigh weight heavy kilos pounds", "weigh weight kilos kg pounds lbs scale"),
        Attribute.PROJECT: Wording(
            "project status progress state",
            "project plan sketch draft prototype beta launch release submitted finished version",
        ),
    },
    living="live living lived",
    relative_next=re.compile(rf"['\u2019]s?\s+(?:{RELATIVES})s?\b", re.I),
)
