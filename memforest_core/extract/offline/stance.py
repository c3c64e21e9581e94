"""How firmly a sentence says something, whether it denies it, and whether it corrects it."""

from __future__ import annotations

import re

from memforest_core.domain.facts import Modality, Polarity

_IDIOMS = re.compile(
    r"can(?:['’]t|not) wait|can(?:['’]t|not) believe|not only|no problem|no doubt|not just"
    r"|why not|can(?:['’]t|not) help|no wonder|not sure",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:not|never|no longer|nobody|none|cannot|neither|nor|no more|[a-z]+n['’]t)\b", re.IGNORECASE
)
_HEARSAY = re.compile(
    r"\b(?:told (?:me|us)|apparently|(?:I|we|i)(?:['’]ve)? heard|reportedly|rumou?r|supposedly"
    r"|allegedly|according to|they say|word is|(?:he|she|they|[A-Z]\w+) (?:said|says|mentioned)\b)"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|might|maybe|perhaps|I wish|imagine|considering|thinking (?:of|about)|possibly|not sure|doubt|pretend|suppose"
    r"|let['’]s say|refuse|almost|would(?!\s+(?:like|love)\b))\b|(?<=[a-z])['’]d\s+(?:rather|probably|be)\b",
)
_SUPPOSED = re.compile(r"^(?:Maybe|Perhaps|If|Possibly|Imagine)\b")
_PLANNED = re.compile(
    r"\b(?:going to (?!bed\b)|gonna|plan(?:s|ning)? (?:to|on|a)\b|hop(?:e|es|ing) to|want(?:s)? to"
    r"|intend(?:s|ing)? to|looking forward|scheduled|will\b(?! power)|won['’]t|can(?:['’]t|not) wait to"
    r"|would (?:like|love) to|about to|moving to|starting (?:next|on|in|tomorrow)|signed up)"
    r"|['’]ll\b|(?<=[Ii])['’]d (?:like|love) to"
)
CORRECTION = re.compile(
    r"^(?:(?:oh|sorry|oops|wait|no|hmm|ah)[,.!\s]+)*(?:actually\b|correction\b|I meant\b|I misspoke\b"
    r"|scratch that|I was wrong|my mistake|to correct|let me correct|no,\s+(?:it|I|my|we|that)\b"
    r"|sorry,\s+(?:it['’]s|I)\b)|\bI meant\b|,\s+actually\b",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(r",?\s+not\s+(?:in |at |on |a |an |the )?(?P<old>[\w-]+(?:\s+[A-Z]\w+)?)[.!]*$")

_SUPPOSING = re.compile(
    r"\W*(?:so\s+|and\s+|but\s+|ok(?:ay)?,?\s+)?(?:if|unless|suppose|supposing|imagine|let['’]?s\s+(?:say|pretend"
    r"|assume|imagine)|pretend|assum(?:e|ing)"
    r"|what\s+if|say\s+i|had\s+i|were\s+i|in\s+case|whether|i\s+(?:wish|hope|dream(?:t|ed)?|doubt|pretend)|if\s+only"
    r"|picture\s+this|hypothetically"
    r"|in\s+(?:theory|another\s+life|my\s+dreams?|my\s+next\s+life|a\s+past\s+life|a\s+perfect\s+world)|maybe|perhaps"
    r"|possibly|apparently|supposedly"
    r"|allegedly|according\s+to|not\s+sure|(?:it['’]?s|it\s+is)\s+not\s+true|everyone\s+thinks|people\s+think"
    r"|they\s+say|rumou?r)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:if|unless|whether|would|wouldn['’]t|might|said|says|thinks?|thought|claims?|claimed|swears?|swore"
    r"|believes?|believed|reckons?|insists?|heard|dream(?:t|ed|s)?"
    r"|pretend(?:s|ed|ing)?|joked?|jokes|lied|lie|told\s+(?!you\b)|asked|wrote|sang|sings|reads?|goes\s+like|quote"
    r"|lyrics?)\b[^.;!?]*$",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\bkidding\b|\bj/?k\b|(?:^|\s)/s\b|\bjok(?:e|es|ing)\b|\bsarcas\w+|\bsaid\s+no\s*(?:one|body)\b"
    r"|\bthat['’]?s\s+(?:a\s+lie|not\s+true|what\s+\w+\s+(?:said|think))"
    r"|\bi\s+(?:lied|was\s+lying|wish)\b|\bwouldn['’]t\s+that\s+be\b|\bin\s+(?:my|your|his|her)\s+(?:head|mind"
    r"|dreams?|imagination)\b|\bas\s+if\b|\bor\s+(?:so|not)\s+(?:they|he|she|people)\b"
    r"|\b(?:in|on|for|as)\s+(?:the|this|that|my|our|a|an)\s+(?:[\w-]+\s+){0,2}(?:games?|novels?|stor(?:y|ies)|books?"
    r"|movies?|films?|shows?|sims?|campaign|series|role\s?-?play|larp|script|dreams?|halloween|costume|party|quiz)\b"
    r"|\bif\b[^.;]*\b(?:would|could|['’]d)\b|\botherwise\b|(?:^|[\s,.!])not[.!]*\s*$|\bnot\s+really\b"
    r"|\byeah\s+right\b|\bmeans?\s+nothing\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.;!?]|\s+-+\s+")


def modality_of(sentence: str) -> Modality:
    """Hearsay before hypothetical before planned; else asserted."""
    if _HEARSAY.search(sentence) or sentence.startswith(("Apparently", "According to")):
        return Modality.HEARSAY
    if _HYPOTHETICAL.search(sentence) or _SUPPOSED.match(sentence):
        return Modality.HYPOTHETICAL
    return Modality.PLANNED if _PLANNED.search(sentence) else Modality.ASSERTED


def is_asserted(sentence: str, start: int, end: int) -> bool:
    """Whether the speaker says a clause in earnest: not supposed, reported, quoted or taken back."""
    if _SUPPOSING.match(sentence) or _TAKEN_BACK.search(sentence, end) or sentence.rstrip(" \"'”)").endswith("?"):
        return False
    before = sentence[:start]
    return not _SUPPOSING.match(
        before[max((found.end() for found in _CLAUSE.finditer(before)), default=0) :] + " "
    ) and not _REPORTED.search(before)


def polarity_of(sentence: str) -> Polarity:
    """Whether the sentence denies; "Denver, not Boston" asserts Denver."""
    rest = _NOT_BUT.sub("", _IDIOMS.sub("", sentence))
    return Polarity.NEGATIVE if _NEGATIVE.search(rest) else Polarity.POSITIVE


def corrects(sentence: str) -> bool:
    """Whether the sentence takes back something said before."""
    return CORRECTION.search(sentence) is not None


def value_denied(sentence: str) -> str:
    """What "X, not Y" takes back: Y, or nothing."""
    found = _NOT_BUT.search(sentence)
    return found["old"] if found else ""
