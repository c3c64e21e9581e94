"""Statements as JSON documents: how a fact's content is stored in one column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memforest_core.domain.facts import Change, Modality, Origin, Polarity, Source, Statement
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.errors import InvariantViolated

_PLAIN = ("text", "speaker", "subject", "attribute", "value", "previous_value", "scene", "verbatim")
"""Fields that are stored as they are."""
_CHOICES: dict[str, Any] = {"change": Change, "polarity": Polarity, "modality": Modality, "origin": Origin}


def to_document(statement: Statement) -> dict[str, Any]:
    """The statement as JSON-ready values."""
    span = statement.time
    return {
        **{name: getattr(statement, name) for name in _PLAIN},
        **{name: getattr(statement, name).value for name in _CHOICES},
        "start": span.start.isoformat() if span.start else None,
        "end": span.end.isoformat() if span.end else None,
        "precision": span.precision.value,
        "mentioned_at": statement.mentioned_at.isoformat(),
        "entities": list(statement.entities),
        "source": statement.source,
    }


def _moment(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value).astimezone(UTC) if value else None


def from_document(document: dict[str, Any]) -> Statement:
    """The statement of ``to_document``. Raises InvariantViolated on anything else."""
    try:
        return _parsed(document)
    except (KeyError, ValueError, TypeError) as error:
        raise InvariantViolated(f"A stored statement is damaged ({type(error).__name__}).") from None


def _parsed(document: dict[str, Any]) -> Statement:
    return Statement(
        **{name: document[name] for name in _PLAIN},
        **{name: choice(document[name]) for name, choice in _CHOICES.items()},
        time=TimeSpan(_moment(document["start"]), _moment(document["end"]), Precision(document["precision"])),
        mentioned_at=datetime.fromisoformat(document["mentioned_at"]).astimezone(UTC),
        entities=tuple(document["entities"]),
        source=Source(source) if (source := document.get("source")) else None,
    )
