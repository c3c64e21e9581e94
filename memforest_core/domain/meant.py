"""Whether what somebody said is meant as how things are: no joke, no wish, nothing that only nearly came true."""

from __future__ import annotations

import re
from collections.abc import Collection

from memforest_core.domain.facts import Modality, Statement
from memforest_core.domain.text import terms

FORMER = "former "
"""How the names of attributes begin under which rules keep what held once."""
_JOKING = re.compile(r"(?i)\b(?:jk(?! rowling)|(?<!no |ot |ou |re )(?:kidding|joking)|nur spaß|scherz|en broma)\b")
_LAUGHING = re.compile(r"\b(?:lol|lmao|rofl)\b|[\U0001f602\U0001f923]", re.I)
_NOT_SO = re.compile(
    r"\b(?:(?:almosts?|nearly) (?:\w+ed|got|bought|went|took|left|became|had)|refuses? to|pretends?|wish(?:es)?|imagine"
    r"|dream(?:s|ed|t)? (?:of|that|about)|suppose|a lie|(?:not|n['’]t) true|(?<!no )doubts?|as if)\b",
    re.I,
)
_ONCE = re.compile(r"\b(?:used to|back (?:when|then)|in those days)\b", re.I)


def joking(turn: str, *, perhaps: bool = False) -> bool:
    """Whether the words of a turn say that it is a joke, or ``perhaps`` one."""
    return _JOKING.search(turn) is not None or (perhaps and _LAUGHING.search(turn) is not None)


def not_so(said: str) -> bool:
    """Whether it jokes, wishes, takes back or says what only nearly came true."""
    return joking(said) or _NOT_SO.search(said) is not None


def meant(statement: Statement, question: Collection[str], *, now: bool) -> bool:
    """Whether a statement says how things are or, without ``now``, were, and of nobody's relative whom the question's
    terms do not name."""
    _, other, relation = statement.subject.rpartition("'s ")
    others = other and set(question).isdisjoint(terms(relation))
    once = now and (statement.attribute.startswith(FORMER) or _ONCE.search(statement.text))
    return not (others or once or statement.modality is Modality.HYPOTHETICAL or not_so(statement.text))
