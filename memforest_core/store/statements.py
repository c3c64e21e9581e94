"""Statements as JSON documents: how a fact's content is kept in one column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memforest_core.domain.facts import Change, Modality, Origin, Polarity, Statement
from memforest_core.domain.times import Precision, TimeSpan
from memforest_core.errors import InvariantViolated


def to_document(statement: Statement) -> dict[str, Any]:
    """The statement as JSON-ready values."""
    span = statement.time
    return {
        "text": statement.text,
        "start": span.start.isoformat() if span.start else None,
        "end": span.end.isoformat() if span.end else None,
        "precision": span.precision.value,
        "mentioned_at": statement.mentioned_at.isoformat(),
        "speaker": statement.speaker,
        "subject": statement.subject,
        "attribute": statement.attribute,
        "value": statement.value,
        "previous_value": statement.previous_value,
        "change": statement.change.value,
        "polarity": statement.polarity.value,
        "modality": statement.modality.value,
        "entities": list(statement.entities),
        "scene": statement.scene,
        "origin": statement.origin.value,
        "verbatim": statement.verbatim,
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
        text=document["text"],
        time=TimeSpan(_moment(document["start"]), _moment(document["end"]), Precision(document["precision"])),
        mentioned_at=datetime.fromisoformat(document["mentioned_at"]).astimezone(UTC),
        speaker=document["speaker"],
        subject=document["subject"],
        attribute=document["attribute"],
        value=document["value"],
        previous_value=document["previous_value"],
        change=Change(document["change"]),
        polarity=Polarity(document["polarity"]),
        modality=Modality(document["modality"]),
        entities=tuple(document["entities"]),
        scene=document["scene"],
        origin=Origin(document["origin"]),
        verbatim=document["verbatim"],
    )
