"""The running session as parts of a context."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from memforest_core.assistant.context.records import ContextPart, Omission, PartKind, Section, Why
from memforest_core.assistant.context.rendering import cut_to, line_tokens
from memforest_core.assistant.context.rows import SessionAtHand
from memforest_core.assistant.conversation_window.records import LeftOut, SessionWindow, WindowPart
from memforest_core.domain.ids import FactId
from memforest_core.domain.rendering import turn_line

_REASONS = {"budget": Why.BUDGET, "repeated": Why.IN_WINDOW, "superseded": Why.SUPERSEDED}


def short_parts(session: SessionAtHand, most: int, max_tokens: int) -> list[ContextPart] | None:
    """All turns of a session word for word, if it has fewer than ``most``, nothing is stored for its window and they
    fit; else None: then the window has to be read."""
    if session.turns >= most or not session.bare:
        return None
    parts = [
        ContextPart(
            section=Section.WINDOW,
            kind=PartKind.TURN,
            text=(text := turn_line(turn.name, turn.content)),
            tokens=line_tokens(text),
            session_id=session.external_id,
            turn_ids=(turn.id,),
            role=turn.role,
            speaker=turn.name,
        )
        for turn in session.last
    ]
    return parts if sum(part.tokens for part in parts) <= max_tokens else None


def window_parts(
    window: SessionWindow, max_tokens: int, mentioned: Collection[FactId]
) -> tuple[list[ContextPart], list[Omission]]:
    """A window's parts, and what is left out: items whose facts are ``mentioned``, and what does not fit once it is
    escaped, items and oldest parts first. The last turn stays, cut if it has to be."""
    parts, out = [], [_omitted(each) for each in window.left_out]
    for each in window.parts:
        if each.fact_id is not None and each.fact_id in mentioned:
            out.append(_left(_part(each), Why.IN_PROFILE))
        else:
            parts.append(_part(each))
    while len(parts) > 1 and sum(part.tokens for part in parts) > max_tokens:
        out.append(_left(parts.pop(0), Why.BUDGET))
    if parts and parts[0].tokens > max_tokens:
        out += [_left(parts[0], Why.BUDGET)] if max_tokens < 1 else []
        parts = _cut(parts[0], max_tokens)
    return parts, out


def shown_turns(parts: Sequence[ContextPart]) -> set[tuple[str, str]]:
    """The turns that parts show word for word, as the caller's ids of session and turn."""
    words = (PartKind.TURN, PartKind.ITEM)
    return {
        (part.session_id, turn)
        for part in parts
        if part.kind in words and not part.fact_ids and not part.cut
        for turn in part.turn_ids
    }


def _part(each: WindowPart) -> ContextPart:
    return ContextPart(
        section=Section.WINDOW,
        kind=PartKind(each.kind.value),
        text=each.item,
        tokens=line_tokens(each.item),
        fact_ids=() if each.fact_id is None else (each.fact_id,),
        session_id=each.session_id,
        turn_ids=each.turn_ids,
        node_ids=() if each.node_id is None else (each.node_id,),
        role=each.role,
        speaker=each.speaker,
        cut=each.cut,
    )


def _cut(part: ContextPart, max_tokens: int) -> list[ContextPart]:
    text = cut_to(part.text, max_tokens)
    return [replace(part, text=text, tokens=line_tokens(text), cut=True)] if text else []


def _left(part: ContextPart, why: Why) -> Omission:
    return Omission(part.section, why, part.tokens, part.fact_ids, part.session_id, part.turn_ids)


def _omitted(each: LeftOut) -> Omission:
    facts = () if each.fact_id is None else (each.fact_id,)
    return Omission(Section.WINDOW, _REASONS[each.reason], each.tokens, facts, each.session_id, each.turn_ids)
