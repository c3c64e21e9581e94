"""The context of one chat turn: what is at hand is read at once, the question recalled, and all of it fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Unpack

from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
from memforest_core.assistant.calendar.service import CalendarService
from memforest_core.assistant.condensing import COMPACT_TURNS
from memforest_core.assistant.context.draft import (
    Budget,
    Draft,
    chosen,
    most_tokens,
    section_tokens,
    window_parts,
    with_context,
)
from memforest_core.assistant.context.portraits import Line, Merger, Portrait, portrait, profile_parts
from memforest_core.assistant.context.records import (
    Context,
    ContextPart,
    ContextRequest,
    Omission,
    Section,
    Why,
    body_tokens,
    cut_to,
    line_tokens,
)
from memforest_core.assistant.conversation_window.records import PartKind, SessionWindow
from memforest_core.assistant.conversation_window.rows import WindowRows
from memforest_core.assistant.conversation_window.service import WindowService
from memforest_core.assistant.profile.describing import Describer
from memforest_core.assistant.profile.persons import person_named
from memforest_core.assistant.rows import Fence
from memforest_core.domain.delivery import CHARS_PER_TOKEN
from memforest_core.domain.evidence import Evidence, RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import checked_limit
from memforest_core.domain.people import People
from memforest_core.domain.text import clipped
from memforest_core.domain.turns import LATEST_SESSION, checked_name
from memforest_core.errors import InvalidInput, NotFound
from memforest_core.recall.answer import MAX_TOKENS, Answer, AnswerService
from memforest_core.recall.question import MAX_QUESTION_CHARS, parse_question
from memforest_core.recall.request import MAX_K, RecallOptions
from memforest_core.recall.service import RecallService
from memforest_core.settings import ContextSettings, WindowSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated

MAX_BUDGET = 1_000_000
MIN_MERGED_CHARS = 200
"""Of a text that a model is request for, however small the budget is."""
LEAST_RECALLED, LEAST_PIECE = 500, 12
"""Tokens that a recall may bring, however small the budget is: what was found and does not fit is named; and those of a
piece with its share of its day's header: more items than fit at this size are not looked for."""


@dataclass(frozen=True, slots=True)
class ContextService:
    """Contexts of a tenant's owners. Thread-safe."""

    engine: Engine
    settings: ContextSettings
    windows: WindowSettings
    describer: Describer
    window: WindowService
    recall: RecallService
    days: CalendarService | None = None
    """Digests of days; None when there is no calendar."""
    merger: Merger | None = None

    def context(
        self,
        tenant: TenantId,
        owner: str,
        session: str | None = None,
        question: str | None = None,
        speaker: str | None = None,
        channel: str | None = None,
        max_tokens: int | None = None,
    ) -> Context:
        """What goes into the prompt of one chat turn: profile, week, today, recalled evidence and the running session.

        ``session`` is the session's id; None (or "LATEST") is the one that runs or, without one, the one that got a
        turn last. One without a turn yet has no window. ``question`` is what is recalled: the message that is to be
        answered; None is the last turn of a user in the session. ``speaker`` (an id or a name) is whom the profile,
        today and the week are about, and bounds evidence to what they said; unless given, the profile is about the
        owner and the days are everybody's. ``channel`` bounds evidence and window to sessions of that ``channel``; the
        profile is of the whole memory, days are left out.
        ``max_tokens`` bounds the estimated tokens of the result's ``text`` (context.max_tokens unless given).

        Each section has its share of the budget; what one does not use goes to the window, then to evidence, profile,
        today and the week. Nothing is there twice. What is left out is named with the reason, what failed in
        ``degraded``. Calls to a model are made as ``profile`` and ``window`` make them, a profile's at most once in
        context.profile_every_s; with context.merge one more call makes one text of profile, today and the week. An
        owner without a memory gets an empty context. Raises InvalidInput, StoreUnavailable.
        """
        most = self.settings.max_tokens if max_tokens is None else max_tokens
        return self.made(tenant, ContextRequest(owner, session, question, speaker, channel, most))

    def made(self, tenant: TenantId, request: ContextRequest, recalled: RecallResult | None = None) -> Context:
        """A context; of what was ``recalled`` already, if given."""
        request = self._checked(request)
        about = request.speaker or request.owner
        # Before anything is read that a merged text is made from.
        fence = None if self.merger is None else self.merger.fence(tenant, request.owner, about)
        draft = self._load(tenant, request)
        if draft is None:
            missing = tuple(Omission(section, Why.NOTHING) for section in Section)
            return Context(request.owner, about, "", "", (), request.max_tokens, missing, owner_known=False)
        about_person, days = self._merged(draft, fence, self._portrait(draft), self._days(draft))
        items = self._recalled(draft, recalled)
        # What more of the profile will fit is known only at the end.
        room = draft.budget.sure(Section.PROFILE) - draft.frame(Section.PROFILE)
        sure = {part.fact_ids for part in profile_parts(about_person, room)[0]}
        lines = [line for line in about_person.lines if line.facts in sure]
        self._put_window(draft, lines)
        if items:
            window = draft.parts.get(Section.WINDOW, [])
            evidence, out = chosen(items, window, lines, draft.room(Section.EVIDENCE))
            draft.put(Section.EVIDENCE, evidence, body_tokens(evidence), out)
        if about_person.lines:
            parts, out, tokens = profile_parts(about_person, draft.room(Section.PROFILE))
            draft.put(Section.PROFILE, parts, tokens, out)
        for section, found in days.items():
            self._put_days(draft, section, found)
        return draft.done()

    def _checked(self, given: ContextRequest) -> ContextRequest:
        """A request whose values are accepted. Raises InvalidInput."""
        if given.question is not None:
            parse_question(given.question)
        session = None if given.session is None else checked_name(given.session, "session")
        return ContextRequest(
            owner=checked_name(given.owner, "owner"),
            session=None if session == LATEST_SESSION else session,
            question=given.question,
            speaker=None if given.speaker is None else checked_name(given.speaker, "speaker"),
            channel=None if given.channel is None else checked_name(given.channel, "channel"),
            max_tokens=checked_limit(given.max_tokens, MAX_BUDGET, "max_tokens"),
        )

    @repeated
    def _load(self, tenant: TenantId, request: ContextRequest) -> Draft | None:
        """Whose memory it is, whom the profile is about, the session and the question; None without a memory."""
        with WindowRows.opened(self.engine, tenant) as rows:
            forest = rows.find_forest(request.owner)
            if forest is None:
                return None
            speakers = rows.speakers(forest.id)
            person = person_named(request.owner, forest, speakers, request.speaker)
            name = request.session or rows.latest(forest.id, request.channel)
            head = None if name is None else rows.head(forest.id, name)
            if head is not None and not head.turns:
                head = None
            question = request.question or ""
            if not question and head is not None and request.channel in (None, head.channel):
                question = clipped(rows.last_said(head.id), MAX_QUESTION_CHARS)
        budget = Budget(request.max_tokens, section_tokens(self.settings, request.max_tokens))
        group = request.speaker is None and any(id_ not in person.ids for id_, _ in speakers)
        draft = Draft(tenant, request, forest, person, head, question, budget, group)
        people = People(request.owner, speakers, forest.display_name)
        if request.speaker is not None and people.who(request.speaker) is None and people.shared(request.speaker):
            draft.degraded.append("Several people have the speaker's name: give the id of one.")
        return draft

    def _is_on(self, section: Section) -> bool:
        return self.settings.fractions[section.value] > 0

    def _portrait(self, draft: Draft) -> Portrait:
        if not self._is_on(Section.PROFILE):
            draft.without(Section.PROFILE, Why.OFF)
            return Portrait()
        every = timedelta(seconds=self.settings.profile_every_s)
        read = partial(portrait, self.describer, draft.tenant, draft.forest.owner, draft.person, every)
        made = draft.tried(Section.PROFILE, "The profile is", read)
        if made is None:
            return Portrait()
        draft.degraded += made.degraded
        if made.lines:
            draft.needs(Section.PROFILE, sum(line_tokens(line.text) for line in made.lines))
        else:
            draft.without(Section.PROFILE, Why.NOTHING)
        return made

    def _days(self, draft: Draft) -> dict[Section, DayDigest | PeriodDigest]:
        """The digests of days that are there."""
        texts: dict[Section, DayDigest | PeriodDigest] = {}
        for section, name in ((Section.TODAY, "today"), (Section.WEEK, "the week")):
            why = Why.CHANNEL if draft.request.channel is not None else None
            why = Why.UNAVAILABLE if self.days is None else why
            why = why if self._is_on(section) else Why.OFF
            if why is not None or self.days is None:
                draft.without(section, why or Why.UNAVAILABLE)
                continue
            read = partial(_digest, self.days, draft, section)
            days = draft.tried(section, f"The digest of {name} is", read)
            if days is None:
                continue
            draft.degraded += days.degraded
            if days.text:
                texts[section] = days
                draft.needs(section, line_tokens(days.text))
            else:
                draft.without(section, Why.NOTHING)
        return texts

    def _merged(
        self, draft: Draft, fence: Fence | None, about_person: Portrait, days: dict[Section, DayDigest | PeriodDigest]
    ) -> tuple[Portrait, dict[Section, DayDigest | PeriodDigest]]:
        """Profile and days, or the one text that a model made of them, which is the profile then."""
        if self.merger is None:
            return about_person, days
        tokens = sum(draft.budget.section_tokens[section] for section in (Section.PROFILE, Section.TODAY, Section.WEEK))
        most = max(MIN_MERGED_CHARS, tokens * CHARS_PER_TOKEN)
        merged, notes = self.merger.merged(
            draft.tenant, fence, draft.person.name, about_person, days, most, group=draft.group
        )
        draft.degraded += notes
        if merged is None:
            return about_person, days
        for section in days:
            draft.without(section, Why.IN_PROFILE)
        draft.needs(Section.PROFILE, sum(line_tokens(line.text) for line in merged.lines))
        draft.left_out = [out for out in draft.left_out if out.section is not Section.PROFILE]
        return merged, {}

    def _recalled(self, draft: Draft, recalled: RecallResult | None) -> tuple[Evidence, ...]:
        """What a recall of the question finds."""
        if not self._is_on(Section.EVIDENCE):
            draft.question = ""
            draft.without(Section.EVIDENCE, Why.OFF)
            return ()
        if not draft.question:
            draft.without(Section.EVIDENCE, Why.NOTHING)
            return ()
        result = recalled
        if result is None:
            result = draft.tried(Section.EVIDENCE, "The evidence is", partial(self._recall, draft))
        if result is None:
            return ()
        draft.degraded += result.degraded
        if result.evidence:
            draft.needs(Section.EVIDENCE, most_tokens(result.evidence))
        else:
            draft.without(Section.EVIDENCE, Why.NOTHING)
        return result.evidence

    def _recall(self, draft: Draft) -> RecallResult:
        tokens = max(LEAST_RECALLED, draft.request.max_tokens)
        options: RecallOptions = {"max_tokens": tokens}
        if draft.request.speaker is not None:
            options["speakers"] = list(draft.person.ids)
        if draft.request.channel is not None:
            options["channels"] = [draft.request.channel]
        if self.settings.complete_questions and draft.session:
            options["session_id"] = draft.session
        most = min(MAX_K, tokens // LEAST_PIECE)
        return self.recall.recall(draft.tenant, draft.request.owner, draft.question, most, **options)

    def _put_window(self, draft: Draft, lines: Sequence[Line]) -> None:
        why = self._no_window(draft)
        if why is not None:
            draft.head = None
            draft.without(Section.WINDOW, why)
            return
        room = draft.room(Section.WINDOW)
        window = draft.tried(Section.WINDOW, "The window is", partial(self._window, draft, room))
        if window is None:
            return
        draft.degraded += window.degraded
        parts, out = window_parts(window, room, {fact for line in lines for fact in line.facts})
        if not parts and not out:
            out = [Omission(Section.WINDOW, Why.NOTHING)]
        draft.put(Section.WINDOW, parts, sum(part.tokens for part in parts), out)

    def _no_window(self, draft: Draft) -> Why | None:
        """Why there can be no window; None when there can."""
        if not (self.windows.enabled and self._is_on(Section.WINDOW)):
            return Why.OFF
        if draft.head is None:
            return Why.NOTHING
        if draft.request.channel not in (None, draft.head.channel):
            return Why.CHANNEL
        return Why.BUDGET if draft.room(Section.WINDOW) < 1 else None

    def _window(self, draft: Draft, room: int) -> SessionWindow:
        # A short session is shown word for word.
        last = COMPACT_TURNS if draft.head is not None and draft.head.turns < COMPACT_TURNS else None
        try:
            return self.window.window(
                draft.tenant, draft.request.owner, draft.session, max_tokens=room, last_turns=last
            )
        except NotFound:
            # It was deleted after it was read.
            return SessionWindow(draft.session, (), room)

    def _put_days(self, draft: Draft, section: Section, days: DayDigest | PeriodDigest) -> None:
        shown = cut_to(days.text, max(0, draft.room(section)))
        tokens, cut = line_tokens(shown), len(shown) < len(days.text)
        part = ContextPart(section, PartKind.DAYS, shown, tokens, digest_id=days.id, cut=cut)
        out = [Omission(section, Why.BUDGET, line_tokens(days.text) - tokens)] if cut else []
        draft.put(section, [part] if shown else [], tokens, out)


def _digest(calendar: CalendarService, draft: Draft, section: Section) -> DayDigest | PeriodDigest:
    person = None if draft.request.speaker is None else draft.person
    read = calendar.today_of if section is Section.TODAY else calendar.week_of
    return read(draft.tenant, draft.forest, person)


@dataclass(frozen=True, slots=True)
class ContextualAnswers:
    """Recalls, adds the context, and answers. Thread-safe."""

    recall: RecallService
    context: ContextService
    open_answering: Callable[[], AnswerService]
    """Raises InvalidSettings without a chat model."""

    def answer(
        self,
        tenant: TenantId,
        owner: str,
        question: str,
        k: int | None = None,
        mode: str | None = None,
        *,
        context: bool = False,
        **options: Unpack[RecallOptions],
    ) -> Answer:
        """What a chat model answers from the evidence, citing it, or that it is not in memory; arguments as in recall.

        With ``context`` it reads the profile, the days and the window of the session (``session_id`` of the options,
        else the one that runs or got a turn last) too, and can cite them; not together with ``as_of``.

        One call to the model of ``llm.answer``; without any evidence none. Raises as recall does, InvalidSettings
        without a chat model, and ModelAuthFailed or ModelRejected when no call can succeed. A model that is unavailable
        is no error: the evidence comes back, and ``degraded`` says so.
        """
        answering = self.open_answering()
        as_of, asked_at = options.get("as_of"), options.get("asked_at")
        if context and as_of is not None:
            raise InvalidInput("A context is about now: leave out as_of, or context.", code="invalid_context")
        found = self.recall.recall(tenant, owner, question, k, mode, **options)
        budget = options.get("max_tokens") or MAX_TOKENS
        if context and found.owner_known:
            # Nothing is there twice, and all of it is within the budget; what was recalled comes first.
            wanted = ContextRequest(owner, options.get("session_id"), found.question, None, None, budget)
            found = with_context(found, self.context.made(tenant, wanted, found))
        return answering.answer(tenant, owner, found.question, found, as_of if asked_at is None else asked_at, budget)
