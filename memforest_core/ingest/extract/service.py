"""One unit of extraction: claim a window, read it with nothing locked, store what it says."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TypeVar
from zoneinfo import ZoneInfo

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.facts import Candidate, Outcome, Source
from memforest_core.domain.ids import CellId, ForestId, TenantId, WorkerId
from memforest_core.domain.pasted import pasted
from memforest_core.domain.rendering import block, one_line
from memforest_core.domain.turns import Role, Turn
from memforest_core.errors import TIMED_OUT, ContentFault, MemForestError, StoreUnavailable
from memforest_core.ingest.extract.answer_checks import as_said, to_candidates, verbatim
from memforest_core.ingest.extract.extraction_prompt import ExtractionAnswer, input_hash
from memforest_core.ingest.extract.offline.replies import both_sides
from memforest_core.ingest.extract.proposer import OfflineProposer, Proposer
from memforest_core.ingest.extract.records import CellResult, ClaimedWindow, WindowResult
from memforest_core.ingest.extract.rows import NOTHING, ExtractRows
from memforest_core.models.calls import CallRecord, Embedder, OwnText, Step, Vectors, failed_call
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of
from memforest_core.settings import ExtractSettings
from memforest_core.store.engine import Engine
from memforest_core.store.repeating import repeated
from memforest_core.work.jobs import CRASHED, Decision, Lane, Verdict, backoff, decide
from memforest_core.work.telemetry import SILENT, Telemetry

T = TypeVar("T")
STEP = "extract"
MAX_ATTRIBUTES = 32
"""Names of attributes that a call is shown."""
STORE_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses between tries to store an answer without Postgres: a restart takes seconds, an answer costs money."""


class WindowSize:
    """The most characters of a window, by how long answers took: they should come within a third of the timeout."""

    def __init__(self, timeout_s: float) -> None:
        self._aim_s = timeout_s / 3
        self._chars = math.inf

    def fitting(self, window: Window) -> int:
        """How many of a window's cells one call reads, at least one."""
        ends = accumulate(len(turn.text) for turn in window.turns)
        beyond = (turn.cell for turn, end in zip(window.turns, ends, strict=True) if end > self._chars)
        return max(1, next(beyond, window.cells + 1) - 1)

    def learn(self, window: Window, calls: Sequence[CallRecord]) -> None:
        """Half after a timeout, as fits after a long answer, up to twice as much after a quick one."""
        read = sum(len(turn.text) for turn in window.turns)
        for call in (each for each in calls if each.step is Step.EXTRACT):
            fits = read * self._aim_s / max(call.latency_ms / 1_000, 0.001)
            if call.outcome == TIMED_OUT:
                self._chars = min(self._chars, read / 2)
            elif call.outcome == "ok":
                self._chars = min(fits, self._chars) if fits < read else max(self._chars, min(fits, 2 * self._chars))


class Extracted(StrEnum):
    """How one unit ended."""

    NOTHING = "nothing"
    """No window was ready."""
    DONE = "done"
    LATER = "later"
    """Given back, split or buried."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The end of one unit, and its forest: the caller has that reduced when the unit is done."""

    ended: Extracted
    forest_id: ForestId | None = None
    live: bool = False


def window_of(claim: ClaimedWindow) -> tuple[Window, dict[int, CellId]]:
    """The window as the model sees it, and its cell numbers' ids."""
    by_ordinal = {turn.ordinal: turn for turn in claim.turns}
    # All of a turn is looked at: the head of a mail may lie in an earlier part.
    of_others = {turn.ordinal: pasted(turn.content) for turn in claim.turns if turn.role is Role.USER}
    turns: list[WindowTurn] = []
    for position, cell in enumerate(claim.cells, start=1):
        for ordinal in range(cell.first_turn, cell.last_turn + 1):
            turn = by_ordinal[ordinal]
            if turn.erased:
                continue
            text, start = turn.content[cell.char_start : cell.char_end], cell.char_start or 0
            parts = (part.within(start, start + len(text)) for part in of_others.get(ordinal, ()))
            shown = _shown(claim, turn, len(turns) + 1, position, text)
            turns.append(replace(shown, pasted=tuple(part for part in parts if part is not None)))
    before = [turn for turn in claim.context if not turn.erased]
    context = tuple(
        _shown(claim, turn, offset - len(before) + 1, 0, turn.content[-1_000:]) for offset, turn in enumerate(before)
    )
    owner = claim.display_name or claim.owner
    window = Window(owner, claim.time_zone, context, tuple(turns), len(claim.cells), claim.people)
    return window, {position: cell.id for position, cell in enumerate(claim.cells, start=1)}


def _shown(claim: ClaimedWindow, turn: Turn, number: int, cell: int, text: str) -> WindowTurn:
    """A turn as the model sees it; the owner's turns from before the owner had a name are under that name too."""
    nameless = turn.speaker_id == turn.name == claim.owner
    name = claim.display_name if nameless and claim.display_name else turn.name
    own = None if turn.utc_offset is None else timezone(timedelta(minutes=turn.utc_offset))
    at = turn.occurred_at.astimezone(own or ZoneInfo(claim.time_zone))
    return WindowTurn(number, cell, turn.ordinal, turn.role, name, text, at)


def _compared_texts(candidates: Sequence[Candidate]) -> set[str]:
    """The texts of candidates that have vectors."""
    return {text for each in candidates for text in (each.statement.text, each.statement.routing_text)}


class ExtractionService:
    """Extracts windows of a tenant, one per call."""

    def __init__(
        self,
        engine: Engine,
        proposer: Proposer,
        embedder: Embedder,
        settings: ExtractSettings,
        rng: random.Random,
        telemetry: Telemetry = SILENT,
        timeout_s: float = math.inf,
    ) -> None:
        """``timeout_s``: of one call of the proposer's model."""
        self._size = WindowSize(timeout_s)
        self._engine = engine
        self._proposer = proposer
        self._embedder = embedder
        self._statements = StatementEmbedder(embedder)
        self._settings = settings
        self._rng = rng
        self._telemetry = telemetry
        self._cached = not isinstance(proposer, OfflineProposer)
        self._served = lru_cache(1_024)(lambda _tenant: [NOTHING for _ in Lane])
        """By lane, the last claim of each of so many tenants."""

    def run_one(self, tenant: TenantId, worker: WorkerId, claimed: Callable[[], None] = lambda: None) -> Extraction:
        """Extract the next ready window; ``claimed`` is called when it is leased. Raises StoreUnavailable only: other
        faults are decided on."""
        attributes: Sequence[str] = ()
        with ExtractRows.opened(self._engine, tenant) as rows:
            served = self._served(tenant)
            claim = rows.claim_window(worker, self._settings.lease_s, served)
            if claim is None:
                return Extraction(Extracted.NOTHING)
            served[Lane.LIVE if claim.live else Lane.BACKFILL] = claim.forest_id, claim.lease_until
            cached = rows.cached_answer(self._key(window_of(claim)[0])) if self._cached else None
            if cached is None and self._cached:
                attributes = rows.known_attributes(claim.forest_id, MAX_ATTRIBUTES)
                claim = rows.shorten_window(claim, self._size.fitting(window_of(claim)[0]))
        settled = False
        if cached is not None:
            self._telemetry.saved_call(STEP, tenant)
        try:
            claimed()
            with self._telemetry.span(STEP, claim.trace, session=str(claim.session_id), cell=str(claim.cells[0].id)):
                end = self._extract(tenant, claim, cached, attributes)
            settled = True
            return end
        except StoreUnavailable:
            settled = True  # the lease ends by itself
            raise
        finally:
            if not settled:
                self._crashed(tenant, claim)

    def _key(self, window: Window) -> bytes:
        return input_hash(window, self._proposer.model, self._proposer.system)

    def _extract(
        self, tenant: TenantId, claim: ClaimedWindow, cached: Mapping[str, object] | None, attributes: Sequence[str]
    ) -> Extraction:
        calls: list[CallRecord] = []
        try:
            result = self._read(tenant, claim, cached, calls, attributes)
        except StoreUnavailable:
            raise
        except MemForestError as error:
            return self._failed(tenant, claim, calls, error)
        finally:
            self._size.learn(window_of(claim)[0], calls)
        stored = self._stored(tenant, claim, result, calls)
        self._telemetry.called(tenant, calls)
        return Extraction(Extracted.DONE if stored else Extracted.LATER, claim.forest_id, claim.live)

    def _stored(
        self, tenant: TenantId, claim: ClaimedWindow, result: WindowResult, calls: Sequence[CallRecord]
    ) -> bool:
        """Store what was paid for, with retries during a restart of the store; False when the lease was lost."""

        def store(rows: ExtractRows) -> bool:
            rows.record_calls(calls, claim.forest_id, claim.session_id)
            return rows.finish_window(claim, self._embedder.model, result, self._settings)

        for pause_s in STORE_PAUSES_S:
            try:
                return self._written(tenant, store)
            except StoreUnavailable:
                time.sleep(pause_s)
        return self._written(tenant, store)

    def _crashed(self, tenant: TenantId, claim: ClaimedWindow) -> None:
        """A bug ended the try: count it, so that a window that breaks the code becomes a dead letter in the end."""
        self._telemetry.retried(STEP, tenant, CRASHED)
        decision = Decision(Verdict.RETRY, backoff(claim.attempts, self._rng.random()), counts=True)
        text = "See the log."
        if claim.retries_verbatim or claim.attempts >= self._settings.max_attempts:
            decision = Decision(Verdict.DEAD)
            text = text if claim.retries_verbatim else "Its extraction crashed; see the worker's log."
        self._written(tenant, lambda rows: self._give_back(rows, claim, decision, CRASHED, text))

    def _give_back(self, rows: ExtractRows, claim: ClaimedWindow, decision: Decision, code: str, text: str) -> None:
        """End a failed try. Cells that are stored word by word already stay so: that is better than nothing."""
        if claim.retries_verbatim and decision.verdict in (Verdict.DEGRADE, Verdict.DEAD):
            rows.leave_window(claim, self._settings, code, text)
        elif decision.verdict is Verdict.RETRY:
            rows.retry_window(claim, decision.delay_s, decision.counts, code, text)
        elif decision.verdict is Verdict.SPLIT:
            rows.split_window(claim, code, text)
        else:
            rows.bury_window(claim, code, text)

    @repeated
    def _written(self, tenant: TenantId, write: Callable[[ExtractRows], T]) -> T:
        """Write in one transaction."""
        with ExtractRows.opened(self._engine, tenant) as rows:
            return write(rows)

    def _read(
        self,
        tenant: TenantId,
        claim: ClaimedWindow,
        cached: Mapping[str, object] | None,
        calls: list[CallRecord],
        attributes: Sequence[str],
    ) -> WindowResult:
        window, cells = window_of(claim)
        if cached is not None:
            answer, outcome, left_out = ExtractionAnswer.model_validate(cached), Outcome.OK, ""
        else:
            proposal = self._proposer.propose(window, calls, attributes)
            answer, left_out = proposal.answer, proposal.left_out
            outcome = Outcome.REPAIRED if proposal.repaired or left_out else Outcome.OK
        candidates = to_candidates(answer, window, cells, Source.MODEL if self._cached else Source.RULES)
        if claim.note and not candidates:
            candidates = as_said(window, cells)
        given = {summary.cell: block(one_line(summary.text)) for summary in answer.summaries}
        said = groupby(window.turns, key=lambda turn: turn.cell)
        summaries = {cell: both_sides(given.get(cell, ""), list(turns)) for cell, turns in said}
        known: frozenset[str] = frozenset()
        if cached is not None:  # texts of a new answer rarely have a vector
            texts = {OwnText(claim.forest_id, text) for text in _compared_texts(candidates)}
            with ExtractRows.opened(self._engine, tenant) as rows:
                known = frozenset(own.text for own in rows.known_vectors(self._embedder.model, texts))
        result = replace(self._result(cells, candidates, summaries, outcome, calls, known), left_out=left_out)
        if cached is not None or not self._cached:
            return result
        return replace(result, input_hash=self._key(window), answer=answer.model_dump(mode="json"))

    def _result(
        self,
        cells: Mapping[int, CellId],
        candidates: Sequence[Candidate],
        summaries: Mapping[int, str],
        outcome: Outcome,
        calls: list[CallRecord],
        known: frozenset[str] = frozenset(),
    ) -> WindowResult:
        """Results by cell, with the vectors of all texts that have none yet."""
        by_cell: dict[CellId, list[Candidate]] = {cell: [] for cell in cells.values()}
        for candidate in candidates:
            by_cell[candidate.cell_id].append(candidate)
        missing = sorted(_compared_texts(candidates) - known)
        vectors: dict[str, Vectors] = {}
        if missing:
            embedded = self._statements.embed(missing, parts_of(each.statement for each in candidates))
            calls.append(embedded.record)
            vectors = dict(zip(missing, embedded.vectors, strict=True))

        def of(number: int, cell: CellId) -> CellResult:
            ended = Outcome.EMPTY if outcome is Outcome.OK and not by_cell[cell] else outcome
            return CellResult(cell, ended, summaries.get(number, ""), tuple(by_cell[cell]))

        return WindowResult(tuple(of(number, cell) for number, cell in cells.items()), vectors)

    def _failed(
        self, tenant: TenantId, claim: ClaimedWindow, calls: list[CallRecord], error: MemForestError
    ) -> Extraction:
        tries = {"attempts": claim.attempts, "max_attempts": self._settings.max_attempts}
        decision = decide(error, **tries, divisible=len(claim.cells) > 1, jitter=self._rng.random())
        self._telemetry.called(tenant, calls)
        if decision.verdict is Verdict.DEAD and not claim.retries_verbatim:
            self._telemetry.buried(STEP, tenant, error.code)
        else:
            self._telemetry.retried(STEP, tenant, error.code)
        result = None
        if decision.verdict is Verdict.DEGRADE and not claim.retries_verbatim:
            window, cells = window_of(claim)
            try:
                result = self._result(cells, verbatim(window, cells), {}, Outcome.VERBATIM, calls)
            except MemForestError as unembedded:
                # The fallback needs vectors; without an embedder the window waits for it.
                if isinstance(unembedded, ContentFault):
                    raise
                if decide(unembedded, **tries, divisible=False, jitter=0.0).verdict is not Verdict.DEGRADE:
                    self._written(tenant, lambda rows: rows.record_calls(calls, claim.forest_id, claim.session_id))
                    return self._failed(tenant, claim, failed_call(unembedded), unembedded)
                error, decision = unembedded, Decision(Verdict.DEAD)
                calls.extend(failed_call(unembedded))

        def end(rows: ExtractRows) -> Extraction:
            rows.record_calls(calls, claim.forest_id, claim.session_id)
            if result is not None:
                fault = error.code, error.message
                stored = rows.finish_window(claim, self._embedder.model, result, self._settings, fault)
                return Extraction(Extracted.DONE if stored else Extracted.LATER, claim.forest_id, claim.live)
            self._give_back(rows, claim, decision, error.code, error.message)
            return Extraction(Extracted.LATER, claim.forest_id, claim.live)

        return self._written(tenant, end)
