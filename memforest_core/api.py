"""The library's object: accept sessions, recall evidence, wait, and close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from functools import cached_property, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar, Unpack

from memforest_core.accept.records import SessionProgress
from memforest_core.bootstrap.producer import Producer
from memforest_core.bootstrap.service import Services, open_services
from memforest_core.calendar.records import DayDigest
from memforest_core.calendar.service import CalendarService
from memforest_core.client import DEFAULT_TIMEOUT_S, MemForestClient, waiting
from memforest_core.context.service import ContextService
from memforest_core.domain.evidence import RecallResult
from memforest_core.domain.ids import TenantId
from memforest_core.errors import IndexUnavailable, InvalidInput
from memforest_core.lifecycle import Lifecycle
from memforest_core.observe.inspection import InspectionService
from memforest_core.profile.describing import Describer
from memforest_core.profile.forgetting import ACTOR, Turns
from memforest_core.profile.intents import Intents
from memforest_core.profile.records import Forgetting
from memforest_core.reading.service import ReadingService
from memforest_core.recall.answering.answer import Answer
from memforest_core.recall.answering.service import MAX_TOKENS
from memforest_core.recall.asking import RecallOptions
from memforest_core.recall.timeline.service import TimelineService
from memforest_core.settings import Settings, load_settings
from memforest_core.window.service import WindowService
from memforest_core.work.waiting import Steps

if TYPE_CHECKING:
    from memforest_core.embedded.node import EmbeddedNode

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def served(
    service: Callable[[Services], S], method: Callable[Concatenate[S, TenantId, P], T]
) -> Callable[Concatenate[MemForest, P], T]:
    """A method of ``MemForest`` that is a service's own, for its tenant: documented where it is done."""

    @wraps(method)
    def called(memory: MemForest, /, *args: P.args, **kwargs: P.kwargs) -> T:
        memory._check()
        return method(service(memory._services), memory._tenant, *args, **kwargs)

    own = signature(method)
    called.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[each for name, each in own.parameters.items() if name != "tenant"]
    )
    return called


class MemForest(MemForestClient):
    """Long-term memory of many owners, for one tenant. Thread-safe.

    ``MemForest.connect()`` uses running services; ``MemForest.embedded(path)`` brings everything along in a directory.
    """

    def __init__(self, services: Services, node: EmbeddedNode | None = None) -> None:
        super().__init__(services.settings, producer=services.producer)
        self._services = services
        self._node = node

    @classmethod
    def connect(cls, settings: Settings | None = None) -> Self:
        """Connect to Postgres, the broker and the vector index that the ``settings`` name (the environment's unless
        given)."""
        services = open_services(settings or load_settings())
        # An index that is away is prepared by the workers; recall answers from full text until then, and says so.
        with suppress(IndexUnavailable):
            services.index.prepare()
        return cls(services)

    @classmethod
    def embedded(cls, path: str | Path, settings: Settings | None = None, *, concurrency: int = 8) -> Self:
        """Everything in this process and one directory: Postgres, broker, vector engine, worker.

        ``path`` is the directory, made when missing; ``concurrency`` is how many tasks its worker runs at once. Needs
        ``pip install memforest[embedded]``. Raises DataDirectoryInUse when another process owns the directory.
        """
        from memforest_core.embedded.node import EmbeddedNode

        node = EmbeddedNode.start(Path(path), settings or load_settings(), concurrency)
        return cls(node.services, node)

    @property
    def services(self) -> Services:
        """The services behind, for tools that look inside."""
        return self._services

    @property
    def client(self) -> MemForestClient:
        """This object, as what accepts sessions."""
        return self

    @property
    def _producer(self) -> Producer:
        self._check()
        return self._opened

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """Operations on stored memory: delete, correct, merge, export, rebuild, bound, audit."""
        self._check()
        return Lifecycle(self._services.lifecycle, self._tenant)

    def recall(
        self,
        owner: str | None = None,
        question: str | None = None,
        k: int | None = None,
        mode: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> RecallResult:
        """The ``k`` best pieces of evidence (1 to 1,000; the setting recall.k unless given) for a question, best first.

        ``question`` has at most 8,192 characters. ``mode`` is "auto", "flat", "root", "embedding", "llm", "planner" or
        "embedding+planner".
        Options: ``since``, ``until``, ``between`` and ``as_of`` bound the time, ``asked_at`` says when it is asked
        (ISO 8601, unix seconds or datetimes), ``max_tokens`` and ``budget_ms`` (milliseconds) what may be spent,
        ``neighbours`` adds that many pieces before and after each, ``session_id`` names the running session,
        ``sessions``, ``exclude_sessions``, ``channels``, ``speakers``, ``roles``, ``metadata`` and ``trees`` say where
        to look, and ``min_score`` leaves out what scores less (RecallOptions tells more). ``vector`` is asked instead
        of a question. ``owners`` are further owners (or all of them, without ``owner``): one recall over at most 16
        forests, whose pieces say whose they are. ``sources`` are external collections that are searched beside.
        An owner without a memory yet gets an empty result whose ``owner_known`` is False. Raises InvalidInput,
        StoreUnavailable.
        """
        self._check()
        return self._services.recall.recall(self._tenant, owner, question, k, mode, **options)

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
        without a chat model, and ModelAuthFailed or ModelRejected when no call can succeed. A model that is away is no
        error: the evidence comes back, and ``degraded`` says so.
        """
        self._check()
        answering = self._services.answering
        if context and options.get("as_of") is not None:
            raise InvalidInput("A context tells what holds now: leave out as_of, or context.", code="invalid_context")
        found = self.recall(owner, question, k, mode, **options)
        asked_at = options.get("asked_at")
        budget = options.get("max_tokens") or MAX_TOKENS
        if context:
            session = options.get("session_id")
            found = self._services.context.around(self._tenant, owner, found, session, budget)
        return answering.answer(
            self._tenant,
            owner,
            question,
            found,
            options.get("as_of") if asked_at is None else asked_at,
            budget,
        )

    timeline = served(lambda services: services.timeline, TimelineService.timeline)
    sessions = served(lambda services: services.reading, ReadingService.sessions)
    turns = served(lambda services: services.reading, ReadingService.turns)
    facts = served(lambda services: services.reading, ReadingService.facts)
    trees = served(lambda services: services.reading, ReadingService.trees)
    node = served(lambda services: services.reading, ReadingService.node)
    calls = served(lambda services: services.inspection, InspectionService.calls)
    window = served(lambda services: services.window, WindowService.window)
    window_put = served(lambda services: services.window, WindowService.window_put)
    profile = served(lambda services: services.describer, Describer.profile)
    intent = served(lambda services: services.intents, Intents.intent)
    context = served(lambda services: services.context, ContextService.context)

    @waiting
    def forget(
        self,
        owner: str,
        words: str,
        dry_run: bool = False,
        *,
        turns: Turns = "alone",
        actor: str = ACTOR,
        wait: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Steps[Forgetting]:
        """Delete the facts that ``words`` name ("where I work", "that I like jazz"); says what was found and goes.

        With a chat model one call chooses among the facts that are found; without, those that are as near to the words
        as the setting profile.forget_similarity. ``turns`` says what becomes of the turns that say the facts: "alone"
        deletes those that say nothing else, "all" also those that say other things, "none" keeps them; ``left`` of the
        result names what is kept. ``dry_run`` only says what would go. ``actor`` is who asks, for the audit. Returns
        when the deletions are asked for; with ``wait`` when they are done, at most ``timeout_s`` seconds later, with
        their receipts. A model that is away chooses nothing, and ``degraded`` says so. Raises InvalidInput,
        ForestFrozen, StoreUnavailable; with ``wait`` also OperationFailed and WaitTimeout.
        """
        self._check()
        forgetter = self._services.forgetter
        forgotten = forgetter.forget(self._tenant, owner, words, dry_run, turns=turns, actor=actor)
        if not wait or dry_run:
            return forgotten
        for task in forgotten.operations:
            yield from self._services.lifecycle.operations.wait_steps(self._tenant, task, timeout_s, lambda _: None)
        return forgetter.with_receipts(self._tenant, forgotten)

    today = served(lambda services: services.calendar, CalendarService.today)
    day = served(lambda services: services.calendar, CalendarService.day)
    week = served(lambda services: services.calendar, CalendarService.week)
    days = served(lambda services: services.calendar, CalendarService.days)
    period = served(lambda services: services.calendar, CalendarService.period)

    def summarize(
        self, owner: str, *, day: date | str | None = None, session: str | None = None
    ) -> DayDigest | SessionProgress:
        """Summarize a ``day`` or a ``session`` now, whether it is due or not: one of the two is given.

        Of a day (a date or ISO 8601) the digest is made, and returned. Of a session the last cell is extracted at once
        instead of after the quiet period, and the refresh of its summaries is due; how far it has come is returned, and
        ``wait(owner, session, "summaries")`` waits for workers to do it. Raises NotFound for an owner or a session that
        does not exist, ForestFrozen, InvalidInput, StoreUnavailable.
        """
        self._check()
        if day is not None and session is None:
            return self._services.calendar.summarize(self._tenant, owner, day)
        if session is None or day is not None:
            raise InvalidInput("Give the day or the session to summarize.", code="one_target")
        self._producer.running.summarize(self._tenant, owner, session)
        return self.status(owner, session)

    def recall_many(
        self, questions: Sequence[tuple[str, str]], k: int | None = None, mode: str | None = None
    ) -> list[RecallResult]:
        """Recall for many (owner, question), eight at once; results in their order. ``k`` and ``mode`` as in recall."""
        with ThreadPoolExecutor(min(8, max(1, len(questions)))) as pool:
            return list(pool.map(lambda pair: self.recall(pair[0], pair[1], k, mode), questions))

    def close(self) -> None:
        """Stop the embedded node, if there is one, and release connections."""
        if self._node is not None:
            self._node.close()
        else:
            self._services.close()

    def _check(self) -> None:
        if self._node is not None:
            self._node.check_process()
