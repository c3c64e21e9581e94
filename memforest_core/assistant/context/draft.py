"""A context while it is being made: a share of the budget for each section, and which parts go into it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memforest_core.assistant.context.portraits import Line
from memforest_core.assistant.context.records import (
    Context,
    ContextPart,
    ContextRequest,
    Omission,
    Section,
    Why,
    cut_to,
    frame_tokens,
    header_tokens,
    line_tokens,
    names_of,
)
from memforest_core.assistant.conversation_window.records import (
    LeftOut,
    PartKind,
    SessionWindow,
    WindowHead,
    WindowPart,
)
from memforest_core.domain.evidence import Evidence, EvidenceKind, RecallResult
from memforest_core.domain.ids import FactId, TenantId
from memforest_core.domain.people import KnownPerson
from memforest_core.domain.rendering import speaker
from memforest_core.domain.scoring import SAME_WORDS
from memforest_core.domain.text import terms
from memforest_core.domain.times import LATEST, UNKNOWN_TIME
from memforest_core.errors import StoreUnavailable
from memforest_core.models.answers import in_words
from memforest_core.settings import ContextSettings
from memforest_core.store.owners import ForestRef

ORDER = (Section.WINDOW, Section.EVIDENCE, Section.PROFILE, Section.TODAY, Section.WEEK)
"""Who may take what others leave, first to last."""


def section_tokens(settings: ContextSettings, max_tokens: int) -> dict[Section, int]:
    """The tokens of each section. Shares count relative to their sum, so that a section that is switched off (0) leaves
    its part to the others."""
    weights = {section: settings.fractions[section.value] for section in Section}
    whole = sum(weights.values())
    return {section: int(max_tokens * weight / whole) for section, weight in weights.items()}


@dataclass(slots=True)
class Budget:
    """How many tokens each section may take, as it becomes known what the others need."""

    max_tokens: int
    section_tokens: Mapping[Section, int]
    _reserved: dict[Section, int] = field(default_factory=dict)

    def needs(self, section: Section, tokens: int) -> None:
        """A section needs at most so many tokens: of its share the rest is free for others."""
        self._reserved[section] = min(tokens, self.section_tokens[section])

    def took(self, section: Section, tokens: int) -> None:
        """A section is done, with so many tokens."""
        self._reserved[section] = tokens

    def sure(self, section: Section) -> int:
        """What a section can take whatever the others take."""
        return self._reserved.get(section, self.section_tokens[section])

    def free(self, section: Section) -> int:
        """What a section may take now: all that the others have not taken or reserved."""
        others = sum(
            self._reserved.get(other, share) for other, share in self.section_tokens.items() if other is not section
        )
        return max(0, self.max_tokens - others)


T = TypeVar("T")


@dataclass(slots=True)
class Draft:
    """A context that is being made."""

    tenant: TenantId
    request: ContextRequest
    forest: ForestRef
    person: KnownPerson
    """Whom the profile is about."""
    head: WindowHead | None
    """The session that a window is shown of."""
    question: str
    budget: Budget
    group: bool
    """Others than this person speak too, and nobody chose whose days are shown."""
    parts: dict[Section, list[ContextPart]] = field(default_factory=dict)
    left_out: list[Omission] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)

    @property
    def session(self) -> str:
        """The caller's id of the session; empty without one."""
        return "" if self.head is None else self.head.external_id

    def room(self, section: Section) -> int:
        """Tokens for a section's lines, without its tags."""
        return self.budget.free(section) - self.frame(section)

    def needs(self, section: Section, tokens: int) -> None:
        """A section needs at most so many tokens for its lines."""
        self.budget.needs(section, tokens + self.frame(section))

    def frame(self, section: Section) -> int:
        """Tokens of its tags."""
        return frame_tokens(section, names_of(self.person.name, self.session).get(section, ""))

    def put(self, section: Section, parts: list[ContextPart], tokens: int, out: list[Omission]) -> None:
        """A section is done: its parts, the tokens of their lines, and what is left out of it."""
        self.parts[section] = parts
        self.left_out += out
        self.budget.took(section, tokens + self.frame(section) if parts else 0)

    def without(self, section: Section, why: Why) -> None:
        """A section is not there."""
        self.put(section, [], 0, [Omission(section, why)])

    def tried(self, section: Section, what: str, call: Callable[[], T]) -> T | None:
        """The result; None, with the section left out and a sentence about ``what``, when the store does not answer."""
        try:
            return call()
        except StoreUnavailable as error:
            self.without(section, Why.FAILED)
            self.degraded.append(f"{what} missing: {in_words(error.code)}.")
            return None

    def done(self) -> Context:
        """The context."""
        return Context(
            owner=self.request.owner,
            about=self.person.name,
            session_id=self.session,
            question=self.question,
            parts=tuple(part for section in Section for part in self.parts.get(section, ())),
            max_tokens=self.request.max_tokens,
            left_out=tuple(self.left_out),
            degraded=tuple(dict.fromkeys(self.degraded)),
        )


def chosen(
    items: Sequence[Evidence], window: Sequence[ContextPart], lines: Sequence[Line], max_tokens: int
) -> tuple[list[ContextPart], list[Omission]]:
    """The best items that fit and that neither the ``window`` nor ``lines`` of the profile tell, as parts, the best
    session first; and what is left out.

    ``max_tokens`` are for their lines and those of their days.
    """
    turns, facts = shown_turns(window), {fact for each in window for fact in each.fact_ids}
    mentioned: dict[FactId, frozenset[str]] = {}
    for line in lines:
        words = frozenset(term for text in (line.text, *line.sentences) for term in terms(text))
        mentioned |= {fact: mentioned.get(fact, frozenset()) | words for fact in line.facts}
    taken: list[Evidence] = []
    out: list[Omission] = []
    groups: set[tuple[str, str]] = set()
    left = max_tokens
    for item in items:
        why = (
            Why.IN_WINDOW
            if _in_window(item, turns, facts)
            else Why.IN_PROFILE
            if _is_mentioned(item, mentioned)
            else None
        )
        group = (item.session_id, item.time_label)
        cost = line_tokens(item.text) + (0 if group in groups else header_tokens(item.time_label))
        if why is None and cost > left:
            why = Why.BUDGET
        if why is None:
            left -= cost
            groups.add(group)
            taken.append(item)
        else:
            out.append(_left(part(item), why))
    return [part(item) for item in in_order(taken)], out


def part(item: Evidence) -> ContextPart:
    """An item of evidence as a part."""
    return ContextPart(
        section=Section.EVIDENCE,
        kind=PartKind.EVIDENCE,
        text=item.text,
        tokens=line_tokens(item.text),
        fact_ids=item.fact_ids,
        session_id=item.session_id,
        turn_ids=item.turn_ids,
        speaker=item.speaker,
        time_label=item.time_label,
    )


def most_tokens(items: Sequence[Evidence]) -> int:
    """Estimated tokens of all items, should every one of them need a line for its day."""
    return sum(line_tokens(item.text) + header_tokens(item.time_label) for item in items)


def in_order(items: Sequence[Evidence]) -> list[Evidence]:
    """Items, given best first, session by session, that of the best item first; within one in the order of time,
    items of one day together."""
    sessions = {item.session_id: rank for rank, item in reversed(list(enumerate(items)))}
    days: dict[tuple[str, str], int] = {}
    for item in sorted(items, key=lambda item: item.time.start or LATEST):
        days.setdefault((item.session_id, item.time_label), len(days))
    return sorted(items, key=lambda one: (sessions[one.session_id], days[one.session_id, one.time_label], one.ordinal))


def _in_window(item: Evidence, turns: Collection[tuple[str, str]], facts: Collection[FactId]) -> bool:
    if item.turn_ids and all((item.session_id, turn) in turns for turn in item.turn_ids):
        return True
    return item.kind is EvidenceKind.FACT and bool(item.fact_ids) and set(item.fact_ids) <= set(facts)


def _is_mentioned(item: Evidence, mentioned: dict[FactId, frozenset[str]]) -> bool:
    """Whether the profile mentions it: a fact, or a turn that has hardly a word beyond its facts."""
    if not item.fact_ids or not all(fact in mentioned for fact in item.fact_ids):
        return False
    if item.kind is EvidenceKind.FACT:
        return True
    words = frozenset(terms(item.text.removeprefix(f"{speaker(item.speaker)}: ")))
    known = frozenset[str]().union(*(mentioned[fact] for fact in item.fact_ids))
    return len(words & known) >= SAME_WORDS * len(words)


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


_REASONS = {"budget": Why.BUDGET, "repeated": Why.IN_WINDOW, "superseded": Why.SUPERSEDED}


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
        kind=each.kind,
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
