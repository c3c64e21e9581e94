"""The words of German."""

from __future__ import annotations

import re

from memforest_core.domain.periods import YEAR
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

_PETS = """
    hund hündin welpe katze kater kätzchen hamster kaninchen hase papagei wellensittich kanarienvogel schildkröte
    goldfisch fisch schlange pferd pony vogel meerschweinchen igel huhn ratte maus dackel pudel labrador
"""
_PET = "|".join(_PETS.split())
_OCCUPATIONS = """
    lehrer lehrerin arzt ärztin krankenpfleger krankenschwester ingenieur ingenieurin programmierer entwickler
    anwalt anwältin koch köchin kellner kellnerin verkäufer verkäuferin schreiner tischler mechaniker elektriker
    klempner pilot fahrer fahrerin busfahrer journalist redakteur fotograf bibliothekar therapeut psychologe
    tierarzt tierärztin kassierer friseur friseurin bäcker metzger gärtner bauer schneider hausmeister übersetzer
    übersetzerin student studentin azubi lehrling praktikant praktikantin berater architekt architektin buchhalter
    sekretär sekretärin
"""
_RELATIVES = (
    "mama|mutter|papa|vater|eltern|schwester|bruder|geschwister|frau|ehefrau|mann|ehemann|partner(?:in)?|freund(?:in)?"
    "|sohn|tochter|kind(?:er)?|oma|großmutter|opa|großvater|tante|onkel|cousin(?:e)?|neffe|nichte|mitbewohner(?:in)?"
    "|chef(?:in)?|kolleg(?:e|in)|nachbar(?:in)?"
)
_OF = r"(?:dem|der|den|diese[mnr]|(?:mein|dein|sein|ihr|unser|eur)e?[mnr]?)"
_NAME = r"(?:(?!Jahren?\b|Monaten?\b|Wochen?\b|Tagen?\b|Stunden?\b|Minuten?\b)[A-ZÄÖÜ][\w-]*)"
_NOUN = rf"(?:[a-zäöüß]+e[nr]\s+)?{_NAME}(?:\s+(?:(?:in|bei|von|am|im|an|der|des|nach|zu|zum|zur)\s+)?{_NAME})*"
_MONTHS = "januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember"
_TIMES = rf"{_MONTHS}|\w+tag|frühling|frühjahr|sommer|herbst|winter|weihnachten|ostern|silvester|{YEAR}"
_PASSED = r"woche|monat|jahr|nacht|mal|\w+tag|wochenende|sommer|winter|herbst|frühling|minute"
_YES_NO = r"^\W*(?!(?:was|wer|wen|wem|wessen|wo|wohin|woher|wann|warum|wieso|wie|welche\w*|wof?ü?r?)\b)\w[^?]*"
_NOW = (
    r"\b(?:jetzt|jetzig\w*|derzeit\w*|zurzeit|zur\s+zeit|momentan|im\s+moment|gegenwärtig|heute|heutzutage|aktuell\w*"
    r"|inzwischen|mittlerweile|immer\s+noch|noch\s+immer)\b"
)
_STILL = rf"\b(?:immer\s+noch|noch\s+immer)\b|{_YES_NO}\bnoch\b(?!\s+(?:nie|nicht|ein))"

_ORDER = OrderWords(
    sides=(
        re.compile(r"\b(?P<word>bevor|ehe|nachdem)\b(?P<rest>[^?.!;,]*)", re.I),
        re.compile(rf"\b(?P<word>[Vv]or)\s+(?!eine[mrn]\b)(?P<rest>(?:{_OF}\s+)?{_NOUN}|dem)"),
        # "Nach" without an article is mostly "to": "nach Berlin".
        re.compile(rf"\b(?P<word>[Nn]ach)\s+(?P<rest>{_OF}\s+{_NOUN})"),
    ),
    after=("nach",),
    between=re.compile(rf"\b[Zz]wischen\s+(?P<one>[^?.!;]+?)\s+und\s+(?P<other>(?:{_OF}\s+)?{_NOUN})"),
    duration=re.compile(
        r"\bwie\s+(?:lange?|viele\s+(?:stunden|tage|wochen|monate|jahre))\b(?!\s+ist\s+es\s+her\b)(?P<rest>[^?.!;]*)",
        re.I,
    ),
    before_words=re.compile(
        rf"\b(?:früher\w*|vorher\w*|zuvor|davor|ehemalig\w*|vorig\w*(?!\s+(?:{_PASSED})\b)|damals|einst|ex-(?=\w)|nicht\s+mehr)\b",
        re.I,
    ),
    after_words=re.compile(r"\b(?:danach|nachher|hinterher|anschließend|später|als\s+nächstes)\b", re.I),
    first_words=re.compile(
        r"\b(?:zuerst|als\s+erstes|anfangs|(?:ganz\s+)?am\s+anfang|zu\s+(?:beginn|anfang)|ursprünglich\w*|zum\s+ersten\s+mal"
        r"|erste[nrsm]?(?!\s+(?:hilfe|klasse|stock|blick)\b))\b",
        re.I,
    ),
    latest_words=re.compile(rf"\b(?:letzte[nrsm]?(?!\s+(?:{_PASSED})\b)|neueste[nrsm]?)\b|{_NOW}|{_STILL}", re.I),
    habit=re.compile(
        rf"(?:{_OF}\s+)?(?:essen|frühstück|mittag(?:essen)?|abendessen|arbeit|schule|schlafen(?:gehen)?|mitternacht|allem|ort"
        r"|gericht|haus|haustür|tür|fenster|augen|bahnhof|laden|spiegel)\W*",
        re.I,
    ),
    dated=re.compile(rf"(?:{_OF}\s+)?(?:{_TIMES})\W*", re.I),
    back=re.compile(r"(?:das|dem|diesem?|da)", re.I),
    clause_end=re.compile(r"[?.!;,]|\s+(?:und|oder|aber)\s+(?:bevor|vor|nach|dann)\b", re.I),
    other_sense=re.compile(r"\b(?:angst|furcht|respekt|flucht|schutz|warn\w*|schütz\w*)\s+vor$", re.I),
    not_time_between=re.compile(
        r"\b(?:unterschied\w*|beziehung\w*|verhältnis\w*|wähl\w*|entscheid\w*|abstand|entfernung|gespräch\w*|streit|spiel)\b[^?.!,;]*$",
        re.I,
    ),
    ends=re.compile(r"\bvon\s+(?P<ends>.+)", re.I),
    pair=re.compile(r"^(?P<one>.+?)\s+(?:und|bis)\s+(?P<other>.+)$", re.I),
    auxiliary=re.compile(
        r"\s*(?:(?:hat|habe|haben|ist|war|bin|sind|es|dauerte?|gedauert|lag|lagen|liegt)\b\s*)*", re.I
    ),
)

_NOW_WORDS = NowWords(
    now=re.compile(rf"{_NOW}|{_STILL}", re.I),
    still=re.compile(_STILL, re.I),
    not_now=re.compile(
        r"\b(?:war(?:en|st)?|hatten?|wurden?|wird|werden?|plan(?:e|t|st|en)|will|wollen|bis\s+jetzt"
        r"|(?:wohn|leb|arbeite|mach|zahl)te[nt]?)\b"
        r"|\b(?:habe?|hat|hast|haben|bin|ist|sind)\b[^?]*\b(?!geschieden|getrennt)\w*(?:ge\w{3,}(?:t|en)|(?:be|er|ver)\w+t|iert)\W*$"
        r"(?<!verheiratet)(?<!verheiratet.)(?<!verlobt)(?<!verlobt.)(?<!liiert)(?<!liiert.)",
        re.I,
    ),
    plain=tuple(
        (attribute, re.compile(pattern, re.I))
        for attribute, pattern in (
            (
                "residence",
                r"\bwo\s+(?:wohn|leb)(?:e|st|t|en)\b"
                r"|\bin\s+welche[rm]\s+(?:stadt|land|ort|viertel|straße)\b.{0,40}?\b(?:wohn|leb)(?:e|st|t|en)\b",
            ),
            (
                "job",
                r"\b(?:wo|als\s+was|bei\s+wem|(?:für|bei|in)\s+welche[nrm]?\s+(?:firma|unternehmen))\s+arbeite(?:st|t|n)?\b"
                r"|\bwas\s+mach(?:e|st|t|en)\b.{1,60}?\bberuflich\b|\bwas\s+(?:bin|ist|sind)\b.{1,60}?\bvon\s+beruf\b",
            ),
            (
                "relationship",
                r"\b(?:bin|ist|sind)\s.{1,60}?\b(?:verheiratet|single|geschieden|getrennt|verlobt|liiert|vergeben)\b"
                r"|\bmit\s+wem\s+(?:bin|ist|sind)\s.{1,60}?\b(?:zusammen|verheiratet|verlobt)\b",
            ),
            (
                "pet",
                rf"\b(?:welche[ns]?|was\s+für\s+(?:ein(?:en)?\s+)?|wie\s+viele)\s+(?:haustiere?|tiere?|(?:{_PET})e?n?)\s+(?:habe?|hat|haben|halte|hält)\b"
                rf"|\b(?:habe?|hat|haben)\s.{{1,60}}?\beine?n?\s+(?:haustier|tier|{_PET})\b",
            ),
            (
                "possession",
                r"\b(?:welche[ns]?|was\s+für\s+ein(?:en)?)\s+(?:auto|wagen|fahrrad|rad|motorrad|handy)\s+(?:habe?|hat|haben|fahre|fährt|fahren)\b"
                r"|\b(?:habe?|hat|haben)\s.{1,60}?\beine?n?\s+(?:auto|wagen|fahrrad|rad|motorrad|haus|wohnung)\b",
            ),
            ("weight", r"\bwie\s+(?:viel|schwer)\s+(?:wiege?|wiegt|wiegen|bin|ist)\b"),
        )
    ),
    what_is=re.compile(
        r"\b(?:was|wie\s+(?:hoch|lang|groß|alt))\s+(?:ist|sind)\s+(?:mein|unser|der|die|das|\w+s)(?:e[rs]?)?\s+(?P<what>[^?.!;]{1,60})",
        re.I,
    ),
    named=tuple(
        (attribute, re.compile(rf"\b(?:{words})\b", re.I))
        for attribute, words in (
            ("residence", r"wohn\w*|gewohnt|leb(?:e|st|t|en|te)|gelebt|zuhause|adresse|stadt"),
            ("job", r"job|beruf\w*|arbeit\w*|gearbeitet|stelle|position|arbeitgeber|firma|angestellt"),
            ("employer", r"arbeit(?:e|et|geber)|gearbeitet|firma"),
            (
                "relationship",
                r"beziehung|verheiratet|verlobt|single|geschieden|zusammen|partner(?:in)?|freund(?:in)?|mann|frau",
            ),
            ("pet", rf"haustiere?|tiere?|(?:{_PET})e?n?"),
            ("possession", r"auto|wagen|fahrrad|motorrad|handy|besitz\w*"),
            ("weight", r"wieg\w*|gewicht"),
            ("status", r"projekt|stand|status|fortschritt"),
            ("diet", r"diät|vegetari\w*|vegan\w*"),
            ("rent", r"miete"),
        )
    ),
)

_SERIES = SeriesWords(
    every=re.compile(
        r"\bwie\s+viele\b|\bwelche\s+(?:[a-zäöüß]+en?\s+)?\w+(?:n|s|er)\s+(?:hat|habe|haben|hatte|ist|sind|waren|kann|spielt|mag)\b"
        r"|\bbeide[nrs]?\b|\balle[nrs]?\b|\b(?:was|wer|wo)\s+(?:alles|noch)\b|\bwelche\s+von\b",
        re.I,
    ),
    often=re.compile(r"\bwie\s+(?:oft|häufig|regelmäßig)\b|\bwie\s+viele\s+male\b", re.I),
    frequency=re.compile(
        r"\b(?:(?:ein|zwei|drei|vier|fünf|sechs)?mal\s+(?:am|im|pro|die|jede\w*)\s+\w+|jede[nrsm]?\s+(?:zweite[nrs]?\s+|dritte[nrs]?\s+)?"
        r"(?:tag|woche|monat|jahr|morgen|abend|nacht|wochenende|\w+tag)|täglich|wöchentlich|monatlich|jährlich|\w+tags)\b",
        re.I,
    ),
    happening="passieren passiert passierte geschehen geschah machen macht machte gemacht los tun tat",
    i="ich",
    my="mein",
    they=re.compile(r"\b(?:er|sie|ihn|ihm)\b", re.I),
    theirs=re.compile(r"\b(?:sein|ihr)(?:e[nrms]?)?\b", re.I),
    possessive=re.compile(r"(?:['\u2019]|s(?!\w))"),
)

_BACKWARD = """
    er ihn ihm sie ihr ihre ihren ihrem ihrer sein seine seinen seinem seiner dessen deren denen derselbe dieselbe
    dasselbe daran darüber dafür dabei davon danach davor dazu jener jene jenes
"""
_LAST = "das der die den dem dort da dahin dorthin dann damals dies auch sonst noch stattdessen es"
_OPENINGS = "und, aber, oder, also, dann, außerdem, was ist mit, wie ist es mit, was noch, wer noch"
_FOLLOW_UP = FollowUpWords(
    backward=frozenset(_BACKWARD.split()),
    last=frozenset(_LAST.split()),
    openings=tuple(_OPENINGS.split(", ")),
    elliptic_words=3,
)

WORDS = Words(
    language="german",
    spaced=True,
    first_person=WordList(
        frozenset({"ich", "mich", "mir", "mein", "meine", "meinen", "meinem", "meiner", "meines", "meins"})
    ),
    ours=frozenset(f"{stem}{ending}" for stem in ("mein", "unser") for ending in ("", "e", "en", "em", "er", "es")),
    relatives=_RELATIVES,
    order=_ORDER,
    now=_NOW_WORDS,
    series=_SERIES,
    follow_up=_FOLLOW_UP,
    wordings={
        Attribute.RESIDENCE: Wording(
            "wohne wohnt wohnen wohnte gewohnt lebe lebt leben lebte gelebt ziehe zieht ziehen zog gezogen wohnort "
            "stadt zuhause",
            "wohne wohnt wohnen wohnte gewohnt lebe lebt ziehe zieht zog gezogen umgezogen umzug einzug eingezogen "
            "wohnung haus zimmer miete wg umziehen eingelebt",
        ),
        Attribute.JOB: Wording(
            "job arbeit arbeite arbeitet arbeiten arbeitete gearbeitet beruf beruflich stelle angestellt position",
            "job arbeit arbeite arbeitet gearbeitet beruf stelle eingestellt gekündigt kündige kündigung befördert "
            f"ausbildung praktikum angestellt entlassen firma büro chef chefin {_OCCUPATIONS}",
        ),
        Attribute.PET: Wording(f"haustier haustiere tier tiere {_PETS}", f"haustier tier tierheim adoptiert {_PETS}"),
        Attribute.WEIGHT: Wording(
            "wiege wiegt wiegen wog gewogen gewicht schwer kilo",
            "wiege wiegt gewicht kilo kg waage abgenommen zugenommen",
        ),
        Attribute.PROJECT: Wording(
            "projekt stand status fortschritt",
            "projekt plan skizze entwurf prototyp beta veröffentlicht eingereicht abgegeben fertig version",
        ),
    },
    living="lebe lebt leben lebte gelebt",
    relative_next=re.compile(rf"['\u2019]?s?\s+(?:{_RELATIVES})\b", re.I),
)
