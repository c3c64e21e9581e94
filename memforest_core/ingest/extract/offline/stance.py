"""How firmly a sentence says something, whether it denies it, and whether it corrects it."""

from __future__ import annotations

import re

from memforest_core.domain.facts import Modality, Polarity
from memforest_core.ingest.extract.offline.state_wordings import pattern

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
    r"\b(?:if|might|maybe|perhaps|I wish|imagine|considering|thinking (?:of|about)|possibly|not sure|doubt|pretend"
    r"|suppose|let['’]s say|refuse|almost|would(?!\s+(?:like|love)\b))\b|(?<=[a-z])['’]d\s+(?:rather|probably|be)\b",
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

_SUPPOSING = pattern("SUPPOSING")
_CONDITION = pattern("CONDITION")
_REPORTED = pattern("REPORTED")
_TO_REMEMBER = pattern("TOREMEMBER")
_TAKEN_BACK = pattern("TAKENBACK")
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
    request = _TO_REMEMBER.search(sentence, 0, start)
    if request is not None and not _REPORTED.search(sentence[: request.start()]):
        # A condition is one of the request, not of what is to be remembered.
        sentence, start, end = sentence[start:], 0, end - start
    if _SUPPOSING.match(sentence) or _TAKEN_BACK.search(sentence, end) or sentence.rstrip(" \"'”)").endswith("?"):
        return False
    before = sentence[:start]
    clause = before[max((found.end() for found in _CLAUSE.finditer(before)), default=0) :] + " "
    return not any((_SUPPOSING.match(clause), _REPORTED.search(before), _CONDITION.search(before)))


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
