"""A second opinion on a model's items: what contradicts its own quote stays a statement and makes no state.

The checks are those of the rules for English, of subject, value, stance and denial. Where they can't tell, the item
stays as the model gave it.
"""

from __future__ import annotations

import re

from memforest_core.domain.facts import Change, Modality, Polarity
from memforest_core.domain.state_names import canonical
from memforest_core.domain.text import clean, normalize_name, sentences
from memforest_core.ingest.extract.extraction_answer import Item
from memforest_core.ingest.extract.offline import kinds
from memforest_core.ingest.extract.offline.clause_subjects import subject_at
from memforest_core.ingest.extract.offline.english_text import is_english
from memforest_core.ingest.extract.offline.person import spelled_out
from memforest_core.ingest.extract.offline.stance import is_asserted

_UNSURE = re.compile(
    r"\b(?:appl(?:y|ied|ies|ying)|interview\w*|hop(?:e|es|ed|ing)|wants?|wanted|wish(?:es)?|might|may|maybe|perhaps"
    r"|consider\w*|think(?:ing)?\s+(?:of|about)"
    r"|looking\s+(?:at|for|into)|almost|nearly|refus\w+|pretend\w*|dream\w*|would|could|should|plan(?:s|ned"
    r"|ning)?\s+(?:to|on)|going\s+to|gonna|will|if"
    r"|unless|imagine|suppose|doubt\w*|try(?:ing)?\s+to|tried\s+to|in\s+talks)\b|['’](?:d|ll)\b",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\b(?:used\s+to|sold|gave\s+away|goal|target|look(?:s|ed)?\s+like|when\s+(?:i|we)\s+(?:was|were))\b", re.IGNORECASE
)
_SAID = re.compile(r"(?<!\bi\s)(?<!\bwe\s)\b(?:said|says|told(?!\s+you)|claims?|claimed|wrote)\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:not|never|no\s+longer|cannot|neither)\b|n['’]t\b", re.IGNORECASE)
_DENIED_VALUE = re.compile(r"\b(?:not|never)\s+(?:an?\s+)?(?:allergic\s+to\s+)?$", re.IGNORECASE)
_SOMEBODY = re.compile(
    r"(?:he|she|they|his|her|their)\b(?!\s+(?:and|or)\s+I\b)|the\s+(?!only\b)\w+\s+(?:is|has|lives|works|owns)\b",
    re.IGNORECASE,
)
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
    if not is_asserted(said, 0, max(at, 0) + len(value)) or _SAID.search(said[:start]):
        return True
    if item.change is Change.STOP:
        return _of_somebody_else(said, start, item, speaker)
    denying = _DENIED_VALUE if attribute in _DENYING else _DENIED
    denied = item.polarity is Polarity.POSITIVE and denying.search(clause) is not None
    unsure = _UNSURE.search(clause) is not None or (at >= 0 and _OVER.search(clause) is not None)
    return denied or unsure or _of_somebody_else(said, start, item, speaker)


def _of_somebody_else(said: str, start: int, item: Item, speaker: str) -> bool:
    """Whether the clause begins with somebody else, though the item is about the speaker."""
    if normalize_name(item.subject) not in {"", "user", "i", "me", normalize_name(speaker)}:
        return False
    subject = subject_at(said, start, speaker)
    return _SOMEBODY.match(said, start) is not None if subject is None else subject.name != speaker


def _sentence(quote: str, value: str) -> str:
    """The sentence of a quote that has a value, as it would be spelled; the whole quote where none has it."""
    said = spelled_out(clean(quote).strip())
    return next((one for one in sentences(said) if value.casefold() in one.casefold()), said)
