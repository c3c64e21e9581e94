"""A context as evidence, for an answer that cites it."""

from __future__ import annotations

from dataclasses import replace

from memforest_core.assistant.context.records import ContextPart, PartKind, Section
from memforest_core.assistant.context.result import Context
from memforest_core.domain.evidence import Evidence, EvidenceKind, RecallResult
from memforest_core.domain.times import UNKNOWN_TIME

_WHEN = {
    Section.PROFILE: "now",
    Section.WEEK: "in the last days",
    Section.TODAY: "today",
    Section.WINDOW: "in this conversation",
}


def with_context(found: RecallResult, context: Context) -> RecallResult:
    """A recall's result whose evidence is what of it went into a context, best first, then the context's other parts:
    the profile, days, and the window from its end on."""
    went_in = {(part.session_id, part.turn_ids, part.text) for part in context.section(Section.EVIDENCE)}
    items = [item for item in found.evidence if (item.session_id, item.turn_ids, item.text) in went_in]
    window = context.section(Section.WINDOW)
    others = [*context.section(Section.PROFILE), *context.section(Section.TODAY), *context.section(Section.WEEK)]
    positions = {id(part): position for position, part in enumerate(window)}
    items += [_item(part, positions.get(id(part), 0)) for part in (*others, *reversed(window))]
    return replace(found, evidence=tuple(items), degraded=tuple(dict.fromkeys((*found.degraded, *context.degraded))))


def _item(part: ContextPart, ordinal: int) -> Evidence:
    return Evidence(
        text=part.text.removeprefix("- "),
        time=UNKNOWN_TIME,
        time_label=_WHEN[part.section],
        score=0.0,
        kind=EvidenceKind.TURN if part.kind is PartKind.TURN else EvidenceKind.FACT,
        fact_ids=part.fact_ids,
        session_id=part.session_id,
        turn_ids=part.turn_ids,
        ordinal=ordinal,
        speaker=part.speaker,
    )
