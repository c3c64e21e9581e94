"""Whether two sentences say the same in other words: equal once short forms, spelling, fillers, plain synonyms and word
order are reduced. What these tables do not know makes sentences differ, so that opposites need no list.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib.resources import files

from memforest_core.domain.languages import ENGLISH, language_of
from memforest_core.domain.periods import MONTH, WEEKDAY
from memforest_core.domain.text import NUMBER_WORDS, normalize_statement, terms

MOST_CHARS = 200
"""Longer sentences have more than one verb, and are compared word by word."""

_FILE = files("memforest_core.domain").joinpath("words/wording.toml")
_TABLES: dict[str, str] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
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
    for group in re.split(r"[|\n]", _TABLES["synonyms"])
    for base in group.split()
    for form, ending in _inflected(base).items()
}
_SAME |= {left: _SAME.get(right, right) for left, right in _entries(_TABLES["forms"])}
_WHOLE = NUMBER_WORDS | dict(_entries(_TABLES["phrases"]))
_PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_WHOLE, key=len, reverse=True))})(?!\w)")
_REDUCING = [
    (re.compile(left), right) for left, right in _entries(_TABLES["rewrites"].replace("@month@", MONTH), "=>", "\n")
]
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
