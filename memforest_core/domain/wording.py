"""Whether two sentences say the same in other words: equal once short forms, spelling, fillers, plain synonyms and word
order are reduced. What these tables do not know makes sentences differ, so that opposites need no list.
"""

from __future__ import annotations

import re
from functools import lru_cache

from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.periods import MONTH, WEEKDAY
from memforest_core.domain.text import NUMBER_WORDS, normalize_statement, terms

MOST_CHARS = 200
"""Longer sentences have more than one verb, and are compared word by word."""

_SYNONYMS = """
buy purchase|begin start commence|child kid|live reside dwell|own have possess|mom mum mother mommy mummy
dad father daddy|ill sick|repair fix mend|bike bicycle|movie film|big large|apartment flat|finish complete
tv television|often frequently|talk speak|vacation holiday|everyone everybody|someone somebody|anyone anybody
help assist|choose pick select|sofa couch|doctor physician|photo photograph pic|car automobile|fridge refrigerator
lawyer attorney|get receive|happy glad|hard difficult|smart clever|answer reply respond|allow permit
forbid prohibit ban|like enjoy|hurt ache|hate detest loathe|try attempt|need require|use utilize|happen occur
build construct|garbage trash rubbish|exam examination|elevator lift|truck lorry|motorway highway|pharmacy drugstore
coworker colleague|grandma grandmother granny|rich wealthy|grandpa grandfather granddad|aunt auntie|boyfriend bf
girlfriend gf|maybe perhaps|almost nearly|quiet silent|until till|rarely seldom|because cuz coz cos
tasty delicious yummy|approximately roughly|scared afraid frightened|baby infant|hire employ|plane airplane aeroplane
now currently|soon shortly|immediately instantly|mistake error|gray grey|euro eur|teenager teen|trousers pants
cookie biscuit|dinner supper|company firm|sweater jumper pullover|entire whole|wrong incorrect|petrol gasoline
stomach belly tummy|dollar buck|percent %|yearly annually|dayly daily
"""
"""Words of one meaning, in all their regular forms."""
_FORMS = """
bought=buy+ed|began=begin+ed|begun=begin+ed|children=child+s|dwelt=live+ed|had=own+ed|has=own+s|spoke=talk+ed
spoken=talk+ed|chose=choose+ed|chosen=choose+ed|got=get+ed|gotten=get+ed|forbade=forbid+ed|forbidden=forbid+ed
built=build+ed|phoned=called|phoning=calling|reserved=booked|reserving=booking|written=wrote|taken=took|given=gave
eaten=ate|driven=drove|broken=broke|stolen=stole|seen=saw|drawn=drew|thrown=threw|grown=grew|sung=sang|done=did
shown=showed|worn=wore|bitten=bit|hidden=hid|forgotten=forgot|beaten=beat|ridden=rode|drunk=drank|flown=flew|known=knew
me=i|him=he|them=they|us=we|km=kilometers|kg=kilograms|min=minutes|mins=minutes|hr=hours|hrs=hours|store=shop
stores=shops|quick=fast|rapid=fast|&=and|gift=present|gifts=presents|journey=trip|journeys=trips|mon=monday|fri=friday
tue=tuesday|tues=tuesday|wed=wednesday|thu=thursday|thur=thursday|thurs=thursday|jan=january|feb=february|mar=march
apr=april|jun=june|jul=july|aug=august|sep=september|sept=september|oct=october|nov=november|dec=december
"""
"""Irregular forms, abbreviations and synonyms of one form only; participles as the past and pronouns as subjects, which
helping verbs and word order distinguish."""
_PHRASES = """
cannot=can not|can't=can not|cant=can not|won't=will not|wont=will not|im=i am|i've=i have|ive=i have|its=it is
thats=that is|hes=he is|shes=she is|theyre=they are|no one=nobody|right now=now|at the moment=now|called off=canceled
passed away=died|a few=several|a little=somewhat|all of=all|both of=both|half of=half|every day=dayly|each day=dayly
every week=weekly|each week=weekly|every month=monthly|each month=monthly|every year=yearly|each year=yearly
by the way=|you know=|i mean=|btw=|lol=|haha=|oh=|hey=|um=|uh=|yeah=|tbh=|to be honest=|theres=there is|whats=what is
u=you|ur=your|fyi=|tommorow=tomorrow|tomorow=tomorrow|seperate=separate|seperated=separated|definately=definitely
a dozen=12|a hundred=100|a thousand=1000|dozen=12|first=1st|second=2nd|third=3rd|fourth=4th|fifth=5th|twenty=20
thirty=30|forty=40|fifty=50|sixty=60|seventy=70|eighty=80|ninety=90
"""
"""What is put for a phrase before anything else."""
_REWRITES = rf"""
\b([2-9])0[ -]([1-9])\b=>\1\2
(?<=\d),(?=\d{{3}}\b)=>
(?<=\d) hundred\b=>00
(?<=\d) thousand\b=>000
\$(\d[\d.,]*)=>\1 dollars
€(\d[\d.,]*)=>\1 euros
(?<=\d)[ -]years?[ -]old\b=>
\b(\d\d?)(?:st|nd|rd|th)?(?: of)? ({MONTH})(?!\w)=>\2 \1
\b({MONTH}) (?:the )?(\d\d?)(?:st|nd|rd|th)\b=>\1 \2
\b(\d\d?(?::\d\d)?) ?([ap])\.?m\b\.?=>\1 \2m
\b(\d\d?)(?= [ap]m\b)=>\1:00
(?<=:\d\d):00=>
\b(do|does|did|is|was|are|were|has|have|had|would|could|should|must|need)n'?t\b=>\1 not
'm\b=> am
're\b=> are
've\b=> have
'll\b=> will
'd(?= (?:better|been|\w{{3,}}ed)\b)=> had
'd\b=> would
's\b=> is
\bis (been|got)\b=>has \1
\b(e|co)-(?=mail|work)=>\1
(?<=[a-z])-(?=[a-z])=>_
(?<=[a-z]{{3}})our(?=s?\b|ed\b|ing\b|ite)=>or
(?<=[a-z]{{4}})is(?=e[ds]?\b|ing\b|ation)=>iz
(?<=[a-z]{{2}})tre(?=s?\b)=>ter
\b(cancel|travel|label|model|signal|level)l(?=ed|ing|er)=>\1
(?<=c)ie(?=v)=>ei
^(?:(?:well(?=,| (?:i|my|we|he|she|they|it)\b)|so|yes|okay|ok|actually|honestly|basically|literally|anyway),? )+=>
,? (?:too|as well)$=> also
,(?= and\b)=>
\b(dr|mrs?|ms|st)\.=>\1
[;!](?= )=>.
\b(?:am|is|are) (?:going to|gonna)\b|\bgonna\b=>will
\b(?:am|is|are) able to\b=>can
\b(have|has) got\b=>\1
\b(?:have|has|needs?|got) to\b|\bgotta\b=>needs to
\b(?:wants|would like)\b=>want
\bwanna\b=>want to
\bdo not have any\b=>have no
\bdoes not have any\b=>has no
\bsearch(?=(?:ed|ing)? for\b)=>look
"""
_NAMED = (
    rf"(?:{WEEKDAY}s?(?: morning| afternoon| evening| night)?|{MONTH}(?: \d+)?(?: \d{{4}})?|\d+(?::\d\d)?(?: am| pm)?"
    "|weekends?|week|month|year|night|noon|midnight|mornings?|afternoons?|evenings?|spring|summer|autumn|winter|work|school"
    "|breakfast|lunch|dinner)"
)
_ADVERB = "(?:day|week|month|year)ly|yesterday|today|tomorrow|tonight|now|soon|usually|often|sometimes|always|recently"
_THIS = "(?:last|next|every|this)"
_TIME = rf"((?:in|on|at|before|after|since|until|during) (?:{_THIS} )?{_NAMED}|{_THIS} {_NAMED}|{_ADVERB})"
_ONE = r"(?:(?:my|his|her|our|their) )?[^ |@]+"
_PLACE = rf"((?:in|at|on) {_ONE})"
_MAIN = r"(?!(?:is|was|are|were|will|own\+s) )([^|@,]+ [^|@,]+)"
_REST = r"( [@|].+)?"
_GAVE = "(?:gave|gives?|sent|sends?|lent|lends?|showed|shows?|sold|sells?|offered|taught|brought)"
_ORDERS = rf"""
{_TIME}(?: ,)? {_MAIN}{_REST}=>\2 | \1\3
{_MAIN} {_TIME}{_REST}=>\1 | \2\3
{_MAIN} {_TIME}{_REST}=>\1 | \2\3
({_ONE}) ({_ADVERB}) ([^|]+)(.*)=>\1 \3 | \2\4
([^|@]+ (?:turn|switch|pick|choose|took|throw|threw|put)\S*) ([^|@]+) (on|off|up|down|out|away){_REST}=>\1 \3 \2\4
{_PLACE}(?: ,)? {_MAIN}{_REST}=>\2 @ \1\3
{_MAIN} {_PLACE}( \|.+)?=>\1 @ \2\3
([^|@]+) (?:was|were) (\S+) by ([^|@]+?)((?: (?:in|on|at|for|with|from|to) [^@|]+)?{_REST})=>\3 \2 \1\4
({_ONE} {_GAVE}) ([^|@]+) to ({_ONE}){_REST}=>\1 \3 \2\4
"""
"""Times and sites go last (after | and @), and actors first."""
_CLAUSE = re.compile(
    r"(?<!\S)(?:and|or|but|because|if|when|while|who|which|than|not|no|never|only|even|says?|said|thinks?|thought|knows?"
    r"|knew|tells?|told|hears?|heard|hopes?|hoped|want|wanted|promised|planned|decided|agreed|asked|believes?|[?.])(?!\S)"
)
"""Words with which a time, a place or an adverb may belong to another verb: their order counts."""
_DOING = re.compile(
    r"\b((?:begin|like|hate)(?:\+\w+)?|love[sd]?|prefers?|continue[sd]?) (?:to ([^\W_]+)|([^\W_]+ing))(?!\S)"
)
_PAIRS = (
    re.compile(r"()(\S+) and (\S+)( (?!is |and ).+)"),
    re.compile(
        r"(.+ (?:to|in|with|of|for|from|between|are|(?:talk|like|hate)(?:\+s)?|loves?|eats?|drinks?|plays?|visited|met"
        r"|saw|knows?|teach|teaches) )(\S+) and (\S+)()"
    ),
)
"""Names and words on both sides of "and" where nothing else can belong to one of them only."""
_TOKEN = re.compile(
    r"(?<![\w.])[-+]?\d+(?:[.,:/]\d+)*(?:st|nd|rd|th)?|[^\W\d_]+(?:[+#]+(?!\w)|-(?!\w))?|[:;]-?[()dp]|\S"
)
_PUNCTUATION = frozenset("'()_")
_ARTICLES = frozenset(("a", "an", "the", "that"))
_FILLERS = frozenset(("just", "also", "really", "very", "actually", "basically", "honestly", "literally"))
_DENIALS = frozenset(("not", "no", "never", "nobody", "nothing", "none", "neither", "nor", "without", "hardly"))


def _entries(table: str, sign: str = "=", between: str = r"[|\n]") -> list[tuple[str, str]]:
    return [(left, right) for left, _, right in (each.partition(sign) for each in re.split(between, table.strip("\n")))]


def _inflected(base: str) -> dict[str, str]:
    """The regular forms of a word, each with its ending."""
    stem = base[:-1] if base.endswith(("e", "y")) else base
    forms = {f"{base}s": "+s", f"{base}es": "+s", f"{base}ed": "+ed", f"{stem}ed": "+ed", f"{base}ing": "+ing"}
    last = {f"{stem}ies": "+s", f"{stem}ied": "+ed"} if base.endswith("y") else {f"{stem}ing": "+ing"}
    return forms | last | {f"{base}{base[-1]}ed": "+ed", f"{base}{base[-1]}ing": "+ing", base: ""}


_SAME = {
    form: group.split()[0] + ending
    for group in re.split(r"[|\n]", _SYNONYMS.strip())
    for base in group.split()
    for form, ending in _inflected(base).items()
}
_SAME |= {left: _SAME.get(right, right) for left, right in _entries(_FORMS)}
_WHOLE = NUMBER_WORDS | dict(_entries(_PHRASES))
_PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_WHOLE, key=len, reverse=True))})(?!\w)")
_REDUCING = [(re.compile(left), right) for left, right in _entries(_REWRITES, "=>", "\n")]
_ORDERING = [(re.compile(left), right) for left, right in _entries(_ORDERS, "=>", "\n")]


def same_wording(one: str, other: str) -> bool:
    """Whether two sentences certainly say the same."""
    left, right = list(_reduced(one)), list(_reduced(other))
    if ("," in left) != ("," in right):  # quick typists leave them out
        left, right = ([word for word in words if word != ","] for words in (left, right))
    pairs = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
    return bool(left) and len(left) == len(right) and (not pairs or (len(pairs) == 1 and _mistyped(*pairs[0])))


@lru_cache(maxsize=4_096)
def _reduced(text: str) -> tuple[str, ...]:
    # "US" is no pronoun, and "vitamin A" has no article.
    folded = normalize_statement(re.sub(r"(?<=[a-z] )(A|US)(?![\w'])", r"^\1", text))
    if language_of(text) != ENGLISH:
        return tuple(folded.split())
    folded = _PHRASE.sub(lambda found: _WHOLE[found[0]], folded).strip(" ,")
    for pattern, put in _REDUCING:
        folded = pattern.sub(put, folded)
    found = [_SAME.get(word, word) for word in _TOKEN.findall(folded) if word not in _PUNCTUATION]
    words = [
        word
        for at, word in enumerate(found)
        if not (word in _ARTICLES and at + 1 < len(found) and found[at + 1] not in ("is", "was", "and", "or"))
        and not (word in _FILLERS and _DENIALS.isdisjoint(found[:at]))
    ]
    return tuple(_ordered(" ".join(words)).split())


def _ordered(said: str) -> str:
    """The words in one of the orders that say the same: actors first, sites and times last."""
    said = _DOING.sub(lambda found: f"{found[1]} {' '.join(terms(found[2] or found[3], ENGLISH))}+ing", said)
    if len(said) < MOST_CHARS and not _CLAUSE.search(said):
        for pattern, put in _ORDERING:
            if found := pattern.fullmatch(said):
                said = found.expand(put)
    for pattern in _PAIRS:
        if found := pattern.fullmatch(said):
            said = found[1] + " and ".join(sorted(found.group(2, 3))) + found[4]
    said, *times = said.split(" | ")
    return " | ".join([said, *sorted(times)])


def _mistyped(one: str, other: str) -> bool:
    """Whether a long word is the other with two letters inside swapped, or with a single letter for a double one."""
    short, long = sorted((one, other), key=len)
    if len(short) < 8 or not (one + other).isalpha() or short[:2] != long[:2] or short[-1] != long[-1]:
        return False
    at = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    swapped = short[:at] + short[at : at + 2][::-1] + short[at + 2 :]
    doubled = short[:at] + short[at - 1] + short[at:]
    return long == swapped or (long == doubled and not long.endswith(("ed", "ing", "er")))
