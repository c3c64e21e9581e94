"""One run: every method answers every question, and each answer is written down as soon as it is measured."""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from benchmarks.eval.baseline_rows import BASELINES, baselines
from benchmarks.eval.baselines import Answered, Method
from benchmarks.eval.blending import Convex
from benchmarks.eval.corpora import Corpora, Searched, facts_of
from benchmarks.eval.dataset import Conversation, Dataset, Question
from benchmarks.eval.losses import DEEP, Outcome, lost, stored
from benchmarks.eval.measuring import BUDGETS, count_tokens, delivered, found, fractions, mean, ranked
from benchmarks.eval.peer_rows import Peer
from benchmarks.eval.records import Record, RecordFile
from benchmarks.eval.variants import MEMFOREST, Recalling, recallings, variants
from benchmarks.harness import say
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.client.services.service import Services, open_services
from memforest_core.domain.delivery import deliver
from memforest_core.domain.ids import TenantId
from memforest_core.settings import OFFLINE, Settings

SELDOM = 50_000
"""New objects between two garbage collections, in processes whose times are of no interest."""
FIRST = 10
"""Items whose text is counted as a method's context."""


class UnknownMethod(Exception):
    """A row was requested that this run does not have; the message names them."""


def names(settings: Settings, group: str) -> list[str]:
    """The rows of a run in their order: the baselines, the default configuration, its variants."""
    return [*BASELINES, *(one.name for one in variants(group, settings.llm))]


def chosen(settings: Settings, group: str, wanted: str | None) -> list[str]:
    """The rows that are wanted (by names with commas between them), of all of a group. Raises UnknownMethod."""
    if wanted is None:
        return names(settings, group)
    everything = names(settings, "all")
    requested = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in requested if name not in everything]
    if unknown or not requested:
        raise UnknownMethod(f"No method is called {', '.join(unknown) or 'nothing'}: name {', '.join(everything)}.")
    return [name for name in everything if name in requested]


Task = tuple[int, int, list[int]]
"""Positions of a conversation, of a method, and of the questions to ask."""


@dataclass
class Run:
    """A memory that holds the data set, and the methods that search it."""

    services: Services
    data: Dataset
    methods: Sequence[Method]
    _held: dict[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, services: Services, data: Dataset, wanted: Sequence[str], *, timed: bool = True) -> Run:
        """The wanted rows over one memory."""
        flat = [one for one in baselines(_corpora(services), data) if one.name in wanted]
        own = [one for one in variants("all", services.settings.llm) if one.name in wanted]
        return cls(services, data, [*flat, *recallings(services, own, timed=timed)])

    def go(self, records: RecordFile, jobs: int = 1) -> None:
        """Ask what is not recorded yet; one conversation after the other, so that each cut is made once.

        With more ``jobs`` as many processes ask, each over connections of its own; the records of one task are written
        together then, and none of their queries is timed: they would wait for each other. Only this process queries
        peers, because each has one memory. Raises PeerAway.
        """
        open_ = self._open(records)
        if jobs == 1:
            for one in open_:
                for record in self.requested(one):
                    records.add(record)
            return
        context = multiprocessing.get_context("spawn")
        given = (self.services.settings, self.data, [method.name for method in self.methods])
        with ExitStack() as stack:
            pools = [
                stack.enter_context(ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=given))
                for _ in range(jobs)
            ]
            separate = [one for one in open_ if not isinstance(self.methods[one[1]], Peer)]
            pending = [pools[process].submit(_requested, task) for process, task in self.shared(separate, jobs)]
            # When one fails, the others are not begun.
            stack.callback(lambda: [each.cancel() for each in pending])
            # In the order of the tasks, so that rows come in their own.
            for done in pending:
                for record in done.result():
                    records.add(record)
            for one in open_:
                if one not in separate:
                    for record in self.requested(one):
                        records.add(record)

    def close(self) -> None:
        """Stop the peers that were started."""
        for method in self.methods:
            if isinstance(method, Peer):
                method.close()

    def shared(self, open_: Sequence[Task], jobs: int) -> Iterator[tuple[int, Task]]:
        """Each task with the process that does it, from 0.

        A conversation's cuts are made once, so all baselines of it go to one process; one that is tuned on all of them
        stays in one, and is tuned once. Our own rows are divided by question.
        """
        for number, place, questions in open_:
            method = self.methods[place]
            if not isinstance(method, Recalling):
                yield (place if isinstance(method, Convex) else number) % jobs, (number, place, questions)
                continue
            for process in range(jobs):
                if own := [at for at in questions if at % jobs == process]:
                    yield process, (number, place, own)

    def _open(self, records: RecordFile) -> list[Task]:
        """For each conversation and method the questions that are not recorded; those that nothing answers are for the
        default configuration only."""
        return [
            (number, place, questions)
            for number, conversation in enumerate(self.data)
            for place, method in enumerate(self.methods)
            if (
                questions := [
                    at
                    for at, question in enumerate(conversation.questions)
                    if (question.measures_recall or (not question.answerable and method.name == MEMFOREST))
                    and not records.has(method.name, question.id)
                ]
            )
        ]

    def requested(self, task: Task) -> Iterator[Record]:
        """One method's answers about one conversation."""
        number, place, questions = task
        conversation, method = self.data[number], self.methods[place]
        if not isinstance(method, Recalling) or method.timed:
            # The first query of a method pays for connections and caches; it is sent twice, and counts once.
            method.ask(conversation, conversation.questions[questions[0]])
        for at in questions:
            yield self._measured(method, conversation, conversation.questions[at])
        say(f"{method.name}: asked about {number + 1} of {len(self.data)} conversations")

    def _measured(self, method: Method, conversation: Conversation, question: Question) -> Record:
        answered = method.ask(conversation, question)
        if not question.answerable:
            question = replace(question, gold=())
        items, gold = answered.items, conversation.evidence(question)
        short, long = (delivered(items, budget, count_tokens) for budget in BUDGETS)
        near, far = found(gold, short), found(gold, long)
        return Record(
            method=method.name,
            conversation=conversation.id,
            question_id=question.id,
            category=question.category,
            gold=question.gold,
            share_500=mean(fractions(gold, short)),
            share_2000=mean(fractions(gold, long)),
            found_500=mean(near),
            found_2000=mean(far),
            ranks=ranked(question.gold, items),
            best_ranks=ranked(question.best or question.gold, items),
            outdated_ranks=ranked(question.outdated, items),
            head=items[0].turn_ids if items else (),
            paraphrase_of=question.paraphrase_of,
            context_tokens=count_tokens(deliver(items[:FIRST])),
            ms=None if answered.ms is None else round(answered.ms, 3),
            k_ms=None if answered.k_ms is None else round(answered.k_ms, 3),
            losses=self._lost(method, conversation, question, answered, near, far),
            degraded=answered.degraded,
            confidence=answered.confidence,
            answerable=question.answerable,
        )

    def _lost(
        self,
        method: Method,
        conversation: Conversation,
        question: Question,
        answered: Answered,
        near: Sequence[bool],
        far: Sequence[bool],
    ) -> dict[str, int]:
        """Where the default configuration lost what; nothing for other rows."""
        if not isinstance(method, Recalling) or method.name != MEMFOREST:
            return {}
        owner, items = conversation.id, answered.items
        if owner not in self._held:
            self._held[owner] = stored(self.services.engine, TenantId(self.services.settings.tenant), owner)
        outcome = Outcome(question.gold, near, far, items)
        return lost(outcome, self._held[owner], lambda: method.recall(conversation, question, DEEP).evidence)


_here: list[Run] = []
"""In a process of ``Run.go``: its own run, over connections of its own to the same memory."""


def _begin(settings: Settings, data: Dataset, wanted: Sequence[str]) -> None:
    configure_logs(logging.WARNING)
    # Nearly all objects stay in use, and a search through them for garbage takes a sixth of the time. With one process
    # this is not set: its times are to be those of a usual one.
    gc.set_threshold(SELDOM, 20, 100)
    _here.append(Run.of(open_services(settings), data, wanted, timed=False))


def _requested(task: Task) -> list[Record]:
    # Also of baselines, whose times are of a busy machine too.
    return [replace(record, ms=None, k_ms=None) for record in _here[0].requested(task)]


def _corpora(services: Services) -> Corpora:
    settings = services.settings
    zone = ZoneInfo(settings.accept.time_zone)
    pointers = (settings.llm.extract.model or settings.llm.model) == OFFLINE

    def read(conversation: Conversation) -> list[Searched]:
        return facts_of(services.engine, TenantId(settings.tenant), conversation, zone, pointers=pointers)

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = services.embedder.embed(texts).vectors
        return vectors

    def embed_query(texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = services.embedder.embed_query(texts).vectors
        return vectors

    return Corpora(read, embed, zone, embed_query)
