"""A second opinion on a model's items: what contradicts its own quote stays a statement and makes no state.

The checks are those of the rules for English, of subject, value, stance and denial. Where they can't tell, the item
stays as the model gave it.
"""

from __future__ import annotations

import re

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import clean, normalize_name, sentences
from memforest_core.extract.answer import Item
from memforest_core.extract.offline import kinds
from memforest_core.extract.offline.clause_subjects import subject_at
from memforest_core.extract.offline.languages import is_english
from memforest_core.extract.offline.person import spelled_out
from memforest_core.extract.offline.stance import is_asserted

_UNSURE = re.compile(
    r"\b(?:appl(?:y|ied|ies|ying)|interview\w*|hop(?:e|es|ed|ing)|wants?|wanted|wish(?:es)?|might|may|maybe|perhaps"
    r"|consider\w*|think(?:ing)?\s+(?:of|about)"
    r"|looking\s+(?:at|for|into)|almost|nearly|refus\w+|pretend\w*|dream\w*|would|could|should|plan(?:s|ned"
    r"|ning)?\s+(?:to|on)|going\s+to|gonna|will|if"
    r"|unless|imagine|suppose|doubt\w*|try(?:ing)?\s+to|tried\s+to|in\s+talks)\b|['’](?:d|ll)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|never|no\s+longer|cannot|neither)\b|n['’]t\b", re.IGNORECASE)
_BOUNDARY = re.compile(r"[,;:()—–]\s*|\s(?:and|but|so|because|while|although|since)\s+", re.IGNORECASE)
_SHAPES = {"age": kinds.age, "weight": kinds.weight}
_DENYING = frozenset({"allergy", "diet", "preference"})


def contradicted(item: Item, quote: str, speaker: str) -> bool:
    """Whether a quote says otherwise than the state that an item sets; False for an item without one."""
    attribute, value = canonical(item.attribute), clean(item.value).strip()
    if not attribute or not value or item.modality is not Modality.ASSERTED:
        return False
    if value.casefold() in {"true", "false", "yes", "no", "none", "null", "unknown", "n/a"}:
        return True
    shape = _SHAPES.get(attribute)
    if shape is not None and any(char.isalpha() for char in value) and not any(char.isdigit() for char in value):
        return True
    if attribute in {"residence", "hometown"} and kinds.is_kind(value, "not a place"):
        return True
    said = _sentence(quote, value)
    if not said or not is_english(said):
        return False
    at = said.casefold().find(value.casefold())
    start = max((found.end() for found in _BOUNDARY.finditer(said, 0, max(at, 0))), default=0)
    clause = said[start:at] if at >= 0 else said
    if not is_asserted(said, start, max(at, 0) + len(value)):
        return True
    if item.change is not Change.STOP and _UNSURE.search(clause):
        return True
    denied = _DENIED.search(clause) is not None and attribute not in _DENYING
    if denied and item.polarity is Polarity.POSITIVE and item.change is not Change.STOP:
        return True
    return _of_somebody_else(said, start, item, speaker)


def _of_somebody_else(said: str, start: int, item: Item, speaker: str) -> bool:
    """Whether the clause begins with somebody else, though the item is about the speaker."""
    subject = subject_at(said, start, speaker)
    of_speaker = normalize_name(item.subject) in {"", "user", "i", "me", normalize_name(speaker)}
    return of_speaker and subject is not None and subject.name != speaker


def _sentence(quote: str, value: str) -> str:
    """The sentence of a quote that has a value, as it would be spelled; the whole quote where none has it."""
    said = spelled_out(clean(quote).strip())
    return next((one for one in sentences(said) if value.casefold() in one.casefold()), said)
