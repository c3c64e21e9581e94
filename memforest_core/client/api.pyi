"""Made by ``python .ci/stubs.py``."""

from collections.abc import Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, Unpack
from uuid import UUID

from memforest_core.assistant.calendar.records import DayDigest, PeriodDigest
from memforest_core.assistant.context.records import Context
from memforest_core.assistant.conversation_window.records import HeldItems, ItemInput, SessionWindow
from memforest_core.assistant.profile.records import Forgetting, Intent, Profile, Turns
from memforest_core.assistant.topics.records import Topic, TopicContext, TopicStats, TopicTurn
from memforest_core.client.embedded.node import EmbeddedNode
from memforest_core.client.lifecycle import Lifecycle
from memforest_core.client.producer import MemForestClient
from memforest_core.client.services.service import Services
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.domain.pages import Page
from memforest_core.domain.turns import Turn
from memforest_core.ingest.accept.records import SessionProgress
from memforest_core.observe.reading.records import StoredFact, StoredNode, StoredSession, StoredTree
from memforest_core.observe.records import LoggedCall
from memforest_core.recall.answer import Answer
from memforest_core.recall.request import RecallOptions
from memforest_core.recall.states import Timeline
from memforest_core.settings import Settings

class MemForest(MemForestClient):
    """Long-term memory of many owners, for one tenant. Thread-safe.

    ``MemForest.connect()`` uses running services; ``MemForest.embedded(path)`` brings everything along in a
    directory."""

    def __init__(
        self, services: Services, node: EmbeddedNode | None = None, *, tenant: TenantId | None = None
    ) -> None: ...
    def answer(
        self,
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
        is no error: the evidence comes back, and ``degraded`` says so."""

    def calls(
        self,
        owner: str | None = None,
        *,
        session_id: str | None = None,
        step: str | None = None,
        outcome: str | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[LoggedCall]:
        """The model calls that were made, failed ones too, the newest first: tokens, dollars and latency of each.

        ``owner`` and ``session_id`` select the calls made for them, ``step`` those of one step ("extract", "summarize",
        "browse", "plan", "answer", "profile", "embed", "rerank"), ``outcome`` those that ended so ("ok" or an
        error's code), ``since`` and ``until`` those recorded from that time to before that time (ISO 8601, unix seconds
        or datetimes; UTC without a zone). ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of
        the page before. Without an owner the whole tenant's; an owner without a memory yet has none, and
        ``owner_known`` is False. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable."""

    @property
    def client(self) -> MemForestClient:
        """This object, as what accepts sessions."""

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Self:
        """Connect to Postgres, the broker and the vector index that the ``settings`` name (the environment's unless
        given)."""

    def context(
        self,
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
        owner without a memory gets an empty context. Raises InvalidInput, StoreUnavailable."""

    def day(self, owner: str, date: date | str, speaker: str | None = None) -> DayDigest:
        """What happened on a day, in the owner's time zone, speaker by speaker.

        ``date`` is a date or ISO 8601 ("2026-11-22"). ``speaker`` (an id, a name, a nickname or a mention) is whose day
        it is alone: what that person said and did, and what others said of them. A digest that is missing or out of
        date is made now for everybody: one call to the model of ``llm.summarize`` for 25 speakers (none where their
        words are short, some for a very long day); without a model, rules pick, and ``extractive`` says so. A day whose
        turns are the same as when its digest was made is never made again. A model that is unavailable is no error:
        ``degraded`` says so. A day without turns, or of an owner without a memory, has no digest (``made`` is False);
        one without a word of or about the ``speaker`` has no ``speakers``. Raises InvalidInput, StoreUnavailable."""

    def days(
        self, owner: str, *, speaker: str | None = None, limit: int = 30, cursor: str | None = None
    ) -> Page[DayDigest]:
        """An owner's days on which something was said, the newest first, with their digests.

        ``speaker`` is whose days these are, as in ``day``; a page has fewer then, as days without that person are left
        out. ``limit`` is the most days of one page, 1 to 1,000; ``cursor`` is that of the page before. Digests are made
        as ``day`` does, ``calendar.at_once`` at most in one call: of other days ``made`` is False. Raises InvalidInput,
        StoreUnavailable."""

    @classmethod
    def embedded(cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8) -> Self:
        """Everything in this process and one directory: Postgres, broker, vector engine, worker.

        ``path`` is the directory, made when missing; ``concurrency`` is how many tasks its worker runs at once. Needs
        ``pip install memforest[embedded]``. Raises DataDirectoryInUse when another process owns the directory."""

    @property
    def embedded_node(self) -> EmbeddedNode | None:
        """The node that this object owns, None with services that run elsewhere."""

    def facts(
        self,
        owner: str,
        *,
        session_id: str | None = None,
        about: str | None = None,
        attribute: str | None = None,
        since: object | None = None,
        until: object | None = None,
        pinned: bool | None = None,
        superseded: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[StoredFact]:
        """An owner's facts with the turns that say them, the one that was learned last first.

        ``session_id`` selects what one session says, ``about`` (a name or a speaker's id) what is about somebody,
        ``attribute`` one state ("residence"), ``since`` and ``until`` what happened or, without a date, was mentioned
        from that time to before that time (ISO 8601, unix seconds or datetimes), ``pinned`` and ``superseded`` what is
        (True) or is not (False). ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound for a session that the
        owner does not have, InvalidInput, StoreUnavailable."""

    def for_tenant(self, tenant: str) -> MemForest:
        """The memory of another tenant over the same connections, which close with this object. Raises InvalidInput."""

    def forget(
        self,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        about: str | None = None,
        turns: Turns = "alone",
        actor: str = "memory",
        wait: bool = False,
        timeout_s: float = 300.0,
    ) -> Forgetting:
        """Delete the facts that ``words`` name ("where I work", "that I like jazz"); says what was found and goes.

        With a chat model one call chooses among the facts that are found; without, those that say all that the words
        say. Words that fit several things choose none. ``about`` is whom "I" in them means (a speaker's id or name);
        the owner unless given. Words that give an alias ("that gruzilkin is Sergey") mean the notes that gave it; the
        name goes with their turns. ``turns`` says what becomes of the turns that say the facts: "alone" deletes those
        that say nothing else, "all" also those that say other things, "none" leaves them; ``left`` of the result names
        what stays. ``dry_run`` only says what would go. ``actor`` is the name for the audit. Returns when the deletions
        are requested; with ``wait`` when they are done, at most ``timeout_s`` seconds later, with their receipts. A
        model that is unavailable, or names what it was not shown, chooses nothing, and ``degraded`` says so.
        Raises InvalidInput, ForestFrozen, StoreUnavailable; with ``wait`` also OperationFailed and WaitTimeout."""

    def intent(
        self,
        text: str,
        owner: str | None = None,
        *,
        speaker: str | None = None,
        addressees: Sequence[str] | None = None,
    ) -> Intent:
        """What a text that is addressed to the assistant requests of its memory: to remember or forget something, what
        is known about the writer or somebody else, or nothing. Nothing is done about it.

        ``text`` has at most 8,192 characters. ``owner`` is the memory whose speakers ``about`` of the result may mean,
        ``speaker`` who wrote the text (an id or a name). With ``addressees`` (at most 16 names or ids of the assistant,
        such as "bot") a text without one of them requests nothing; without, any text is taken as addressed. With a chat
        model one call reads it (a second one when the answer can't be used); else, or when the model is unavailable,
        rules do, and ``degraded`` says so in the latter case. Raises InvalidInput, StoreUnavailable."""

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Operations on stored memory: delete, correct, merge, export, rebuild, bound, audit."""

    def node(self, node_id: UUID | str, *, limit: int = 100, cursor: str | None = None) -> StoredNode:
        """A node of a tree, its parent, its neighbours on its level, and a page of its children.

        ``limit`` and ``cursor`` are those of the children. Raises NotFound, InvalidInput, StoreUnavailable."""

    def period(self, owner: str, period: str, speaker: str | None = None) -> PeriodDigest:
        """One text of a month ("2026-11"), a year ("2026") or the whole life ("life"), the most recent first; of a
        ``speaker`` as in ``day``.

        A month is made from its days, a year from its months, the life from its years; one reading makes
        ``calendar.at_once`` digests of days at most, the newest first, and ``missing`` lists those still to be
        made. Raises InvalidInput, StoreUnavailable."""

    def profile(self, owner: str, about: str | None = None, *, write: bool = True) -> Profile:
        """What is known now of somebody: the states that hold, and pinned facts that are none, with their ids.

        ``about`` is a speaker's id or name, or another name; None is the owner. With a chat model ``text`` is sentences
        in the third person: one call at temperature 0 (a second one when the answer can't be used), stored under a hash
        of the facts, the model and the prompt, until one of the memory's words is deleted. Without a model it is a
        list; with one that is unavailable too, and ``degraded`` says so. Without ``write`` no call is made: a text that
        is not stored already is a list. An owner without a memory yet gets an empty one, and ``owner_known`` is False.
        Raises InvalidInput, StoreUnavailable."""

    def recall(
        self,
        owner: str | None = None,
        question: str | None = None,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best evidence items (1 to 1,000; the setting recall.k unless given) for a question, best first.

        ``question`` has at most 8,192 characters. ``mode`` is "auto", "flat", "embedding", "llm" or "planner".
        Options: ``since``, ``until``, ``between`` and ``as_of`` bound the time, ``asked_at`` is the timestamp of the
        question (ISO 8601, unix seconds or datetimes), ``max_tokens`` and ``budget_ms`` (milliseconds) what may be
        spent, ``neighbours`` adds that many items before and after each, ``session_id`` names the running session,
        ``sessions``, ``exclude_sessions``, ``channels``, ``speakers``, ``roles``, ``metadata`` and ``trees`` say what
        to search, and ``min_score`` leaves out what scores less (RecallOptions says more). ``vector`` is given instead
        of a question. ``owners`` are further owners (or all of them, without ``owner``): one recall over at most 16
        forests, whose items say whose they are. ``sources`` are external collections that are searched in addition.
        An owner without a memory yet gets an empty result whose ``owner_known`` is False. An index, a model or a source
        that is unavailable is no error: ``degraded`` says what was missing. Raises InvalidInput (also for a mode that
        needs a chat model when none is configured), StoreUnavailable."""

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), eight at once; results in their order. ``k`` and ``mode`` as in recall."""

    @property
    def services(self) -> Services:
        """The services behind, for tools that look inside."""

    def sessions(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Page[StoredSession]:
        """An owner's sessions, the newest first.

        ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of the page before. An owner without a
        memory yet has none, and ``owner_known`` is False. Raises InvalidInput, StoreUnavailable."""

    def summarize(
        self, owner: str, *, day: date | str | None = None, session: str | None = None
    ) -> DayDigest | SessionProgress:
        """Summarize a ``day`` or a ``session`` now, whether it is due or not: one of the two is given.

        Of a day (a date or ISO 8601) the digest is made, and returned. Of a session the last cell is extracted at once
        instead of after the quiet period, and the refresh of its summaries is due; how far it has come is returned, and
        ``wait(owner, session, "summaries")`` waits for workers to do it. Raises NotFound for an owner or a session that
        does not exist, ForestFrozen, InvalidInput, StoreUnavailable."""

    def timeline(
        self,
        owner: str,
        *,
        entity: str | None = None,
        attribute: str | None = None,
        scene: str | None = None,
        as_of: object | None = None,
        since: object | None = None,
        until: object | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Timeline:
        """The states of an entity, an attribute or a scene in the order of time, each with the turns that say so.

        ``entity`` is a name; without it the states are the owner's own, "*" is everybody. ``attribute`` is what is
        stated ("residence"), ``scene`` a scene's label or id; of several of these, the states that all of them name.
        ``as_of`` leaves out what was said later; ``since`` and ``until`` keep the states that happened or were
        mentioned in that time, both ends included (ISO 8601, unix seconds or datetimes, naive ones in the owner's
        zone). ``limit`` is the most states at once, 1 to 1,000; ``cursor`` is that of the page before. An owner without
        a memory yet has none, and ``owner_known`` is False. Raises InvalidInput (naming what is known),
        StoreUnavailable."""

    def today(self, owner: str, speaker: str | None = None) -> DayDigest:
        """What happened today, in the owner's time zone, speaker by speaker; see ``day``.

        It is made again at most once in ``calendar.today_s`` seconds, and only if enough turns have come since:
        ``new_turns`` counts those that it does not tell of."""

    def topic_context(
        self, owner: str, topic: UUID | Literal["current"] | str = "current", *, max_tokens: int | None = None
    ) -> TopicContext:
        """A topic for a prompt: its title and summary as a system message, then its turns in the order of time. The
        "current" topic, that of the owner's newest turn, unless another ``topic`` is named.

        The newest turns that fit ``max_tokens`` estimated tokens (the setting topics.context_tokens unless given) are
        there, without a gap; ``left_out`` says how many are not. Counts as an access, which warms a cold topic. Raises
        NotFound for a topic that the owner does not have, InvalidInput, StoreUnavailable."""

    def topic_history(
        self,
        owner: str,
        topic: UUID | str,
        *,
        include_compressed: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TopicTurn]:
        """All turns of a topic, of both sides, in the order of time.

        A cold topic's turns are there as well; without ``include_compressed`` it has none, and stays cold. Reading
        them counts as an access. ``limit`` and ``cursor`` as in ``topics``; raises as ``topic_context``."""

    def topic_merge(self, owner: str, a: UUID | str, b: UUID | str) -> Topic:
        """Make one topic of two: ``a`` takes the turns, facts and tags of ``b``, which ends. It is hot, and summarized.

        Raises InvalidInput when both together have more facts than a scene may hold (``reduce.scene_cap``) or are one
        and the same; ForestFrozen, else as ``topic_context``."""

    def topic_rate(
        self, owner: str, topic: UUID | str, importance: float | None = None, *, useful: bool | None = None
    ) -> Topic:
        """Set how important a topic is, from 0 to 1, or move that by a feedback: a fifth of the way to 1 when it was
        useful, to 0 when it was not.

        From then on this counts instead of what its turns state, and accesses teach on top of it. Raises InvalidInput
        unless exactly one of both is given, ForestFrozen, else as ``topic_context``."""

    def topic_stats(self, owner: str, topic: UUID | str) -> TopicStats:
        """Counts of a topic: turns, facts, dates, accesses, what its texts take, how fast it fades, and its points.

        No access. Raises as ``topic_context``."""

    def topic_tag(self, owner: str, topic: UUID | str, tags: Sequence[str]) -> Topic:
        """Give a topic these tags instead of those it has; none removes them. At most 20, of 60 characters each.

        They are cleared when a turn or fact of the topic is deleted. Raises ForestFrozen, else as ``topic_context``."""

    def topics(self, owner: str, *, limit: int = 100, cursor: str | None = None) -> Page[Topic]:
        """An owner's topics, the one with the newest turn first.

        Turns that are appended have their topics at once, those of whole sessions when workers place their facts.
        ``limit`` is the most items of one page, 1 to 1,000; ``cursor`` is that of the page before. An owner without a
        memory yet has none, and ``owner_known`` is False. Raises InvalidInput, StoreUnavailable."""

    def trees(
        self, owner: str, *, kind: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[StoredTree]:
        """An owner's trees with the summaries of their roots, in the order of kind and scope.

        ``kind`` is "session", "entity" or "scene"; all unless given. ``limit`` and ``cursor`` as in ``sessions``.
        Raises InvalidInput, StoreUnavailable."""

    def turns(
        self,
        owner: str,
        session_id: str,
        *,
        last: int | None = None,
        before: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Turn]:
        """A session's turns in order, page by page from the first one; or its ``last`` so many turns.

        ``before`` is a turn's id: only those before it. ``limit`` and ``cursor`` as in ``sessions``. Raises NotFound
        for a session or a turn that the owner does not have, InvalidInput, StoreUnavailable."""

    def week(self, owner: str, speaker: str | None = None) -> PeriodDigest:
        """One text of the six days before today (days 2 to 7), the most recent first; of a ``speaker`` as in ``day``.

        Made from the digests of those days, which are made too where they are missing or out of date; one call to the
        model where they don't fit ``calendar.week_chars`` together. Raises InvalidInput, StoreUnavailable."""

    def window(
        self, owner: str, session_id: str = "LATEST", *, max_tokens: int | None = None, last_turns: int | None = None
    ) -> SessionWindow:
        """A session as a model should see it: the last turns word for word, older ones as summaries, and items.

        ``session_id`` "LATEST" names the session that runs or, without one, the one that got a turn last.
        ``max_tokens`` bounds the estimated tokens (the setting window.max_tokens unless given), ``last_turns`` turns
        stay word for word (window.last_turns). Summaries are those of the session's tree, where they are clean. When
        12 turns have gathered without, all but ``last_turns`` of them are compacted: one call to the
        model of ``llm.summarize`` makes the next summary of the one before and what is new; without a model, rules do.
        A model that is unavailable is no error: ``degraded`` says so. An owner without a memory, or without a session
        for LATEST, gets an empty window. Raises NotFound for a session that the owner does not have, InvalidInput,
        StoreUnavailable."""

    def window_put(self, owner: str, session_id: str, items: Sequence[ItemInput]) -> HeldItems:
        """Put what recall found into a session's window: references to facts and turns, never copies of words.

        ``items`` are items of evidence, ids of facts, or pairs of a session's and a turn's id, the best first, at most
        1,000. They stay until there are more than window.items: then those fall out that were put in (again)
        the longest ago (window.eviction "LRU"), or put in first ("FIFO"). What is forgotten falls out at once.
        ``session_id`` as in ``window``. Raises NotFound for a session that is not stored, InvalidInput,
        StoreUnavailable."""
