"""Extraction's statements: windows are claimed with SKIP LOCKED, and results are guarded by the lease's token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.types import TypeEngine

from memforest_core.domain.facts import CORRECTED_ITEM, Outcome
from memforest_core.domain.ids import CellId, ForestId, LeaseToken, WorkerId
from memforest_core.ingest.extract.records import CONTEXT_TURNS, ClaimedCell, ClaimedWindow, WindowResult
from memforest_core.models.calls import OwnText
from memforest_core.settings import ExtractSettings
from memforest_core.store import tables as m
from memforest_core.store.copying import adding, columns_of, given_rows, given_to
from memforest_core.store.owners import people_of
from memforest_core.store.rows import FIRST, among, record_of, seconds_from_now
from memforest_core.store.statements import to_document
from memforest_core.store.turn_rows import turns_of, whole_turns
from memforest_core.store.vectors import VectorRows, text_hash
from memforest_core.work.jobs import Lane, WorkState

# Forests take turns in each lane: thousands of sessions of one owner do not delay those of the others. A round goes on
# after the last claim of this process, or a later one of another whose window is running; a longer lease than one's own
# does not say when it was claimed. The probes are made in this order, until one finds a window. Where and when are
# computed first (OFFSET 0, SELECT): so the index compares them. Each cell is looked up by the head that was found.
_HOLD_WINDOW = sa.text("""
    SELECT c.cell_id, c.session_id, c.window_ordinal FROM (
        SELECT found.*
          FROM (VALUES (0, CAST(:live AS uuid), CAST(:live_at AS timestamptz)), (0, NULL, NULL),
                       (1, :backfill, :backfill_at), (1, NULL, NULL)) turn (lane, own, at)
         CROSS JOIN LATERAL (
               SELECT CASE WHEN own IS NULL THEN :first ELSE coalesce((
                   SELECT forest_id FROM memforest.cell
                    WHERE tenant_id = :t AND state = 'running' AND lane = turn.lane AND lease_until > turn.at
                      AND lease_until <= (SELECT clock_timestamp()) + make_interval(secs => :lease)
                    ORDER BY lease_until DESC LIMIT 1), own) END AS after OFFSET 0) last
         CROSS JOIN LATERAL (
               SELECT session_id, window_ordinal FROM memforest.cell
                WHERE tenant_id = :t AND state = 'ready' AND ordinal = window_ordinal AND lane = turn.lane
                  AND forest_id > last.after AND available_at <= (SELECT clock_timestamp())
                ORDER BY forest_id, available_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) found
         LIMIT 1) head
     CROSS JOIN LATERAL (
           SELECT cell_id, session_id, window_ordinal FROM memforest.cell
            WHERE tenant_id = :t AND session_id = head.session_id AND window_ordinal = head.window_ordinal
              AND state = 'ready' ORDER BY cell_id FOR NO KEY UPDATE SKIP LOCKED) c
    """)

Claim: TypeAlias = tuple[UUID, datetime]
"""A claim's forest, and when its lease ends."""
NOTHING: Claim = FIRST, datetime.min.replace(tzinfo=UTC)

LATEST_FACTS = 500
"""Facts whose attributes are counted: as many in a large forest as in a small one."""

# Names only. A long text, or one with other characters, is a model's mistake and not suggested.
_KNOWN_ATTRIBUTES = sa.text("""
    SELECT attribute FROM (
        SELECT attribute FROM memforest.fact WHERE tenant_id = :t AND forest_id = :f ORDER BY seq DESC LIMIT :facts) x
     WHERE attribute ~ '^[[:alnum:]][[:alnum:] _/-]{0,39}$'
     GROUP BY attribute ORDER BY count(*) DESC, attribute LIMIT :n
    """)

# A window is claimed as a whole: when another transaction holds one of its cells, it is left to a later claim. Its
# cells are read by a statement that begins after they are locked, and so in their latest state.
_CLAIM = sa.text("""
    UPDATE memforest.cell c
       SET state = 'running', attempts = c.attempts + 1, lease_token = :token, worker_id = :worker,
           lease_until = clock_timestamp() + make_interval(secs => :lease)
      FROM memforest.session s JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = s.forest_id
     WHERE s.tenant_id = :t AND s.session_id = :session
       AND c.tenant_id = :t AND c.session_id = :session AND c.window_ordinal = :window AND c.state = 'ready'
       AND NOT EXISTS (SELECT 1 FROM memforest.cell other
                        WHERE other.tenant_id = :t AND other.session_id = :session AND other.window_ordinal = :window
                          AND other.state = 'ready' AND other.cell_id <> ALL(CAST(:held AS uuid[])))
    RETURNING c.cell_id AS id, c.forest_id, c.session_id, c.ordinal, c.first_turn, c.last_turn, c.char_start,
              c.char_end, c.attempts, c.outcome, c.lane, c.lease_until, f.owner, f.time_zone, f.display_name, s.trace,
              s.note
    """)


_ENDED: dict[str, TypeEngine[Any]] = {"cell_id": sa.Uuid(), "outcome": sa.Text(), "summary": sa.Text()}
"""What a window's answer says of each of its cells."""


def _retry_at(settings: ExtractSettings) -> sa.ColumnElement[Any]:
    """When a cell that was stored word by word is retried: later with each time."""
    delay = sa.func.least(settings.retry_longest_s, settings.retry_s * sa.func.power(2.0, m.Cell.agains))
    return seconds_from_now(delay)


class ExtractRows(VectorRows):
    """Rows of one extraction transaction."""

    def claim_window(
        self, worker: WorkerId, lease_s: float, after: Sequence[Claim] = (NOTHING, NOTHING)
    ) -> ClaimedWindow | None:
        """Take a ready window under a new lease, None when none is ready: the live lane's, else the other's. It is the
        oldest of the next forest in the order of ids, in a circle, after that of the lane's last claim: of ``after``,
        or a later one of another process."""
        (live, live_at), (backfill, backfill_at) = after
        turns = {"live": live, "live_at": live_at, "backfill": backfill, "backfill_at": backfill_at}
        held = self._run(_HOLD_WINDOW, first=FIRST, lease=lease_s, **turns).all()
        if not held:
            return None
        token, cells = LeaseToken(uuid4()), [row.cell_id for row in held]
        window = {"session": held[0].session_id, "window": held[0].window_ordinal, "held": cells}
        claimed = self._run(_CLAIM, token=token, worker=worker, lease=lease_s, **window).all()
        if not claimed:
            return None
        rows = sorted(claimed, key=lambda row: int(row.ordinal))
        first, last = rows[0].first_turn, max(row.last_turn for row in rows)
        t = m.TurnRow
        wanted = (t.tenant_id == self._tenant, t.session_id == rows[0].session_id)
        read = whole_turns().where(*wanted, t.ordinal.between(first - CONTEXT_TURNS, last)).order_by(t.ordinal)
        said = turns_of(self._db.execute(read).mappings())
        return record_of(
            ClaimedWindow,
            rows[0],
            token=token,
            attempts=max(row.attempts for row in rows),
            live=rows[0].lane == Lane.LIVE,
            retries_verbatim=all(row.outcome == Outcome.VERBATIM for row in rows),
            cells=tuple(record_of(ClaimedCell, row) for row in rows),
            turns=tuple(turn for turn in said if turn.ordinal >= first),
            context=tuple(turn for turn in said if turn.ordinal < first),
            people=people_of(self._db, self._tenant, rows[0].forest_id),
        )

    def cached_answer(self, input_hash: bytes) -> Mapping[str, object] | None:
        """An answer already paid for."""
        cache = m.ExtractionCache
        paid = sa.select(cache.answer).where(cache.tenant_id == self._tenant, cache.input_hash == input_hash)
        found: Mapping[str, object] | None = self._db.scalar(paid)
        return found

    def known_attributes(self, forest: ForestId, limit: int) -> list[str]:
        """Names of attributes that the forest's latest facts use, the most frequent first; no facts."""
        return list(self._run(_KNOWN_ATTRIBUTES, f=forest, facts=LATEST_FACTS, n=limit).scalars())

    def _end(self, window: ClaimedWindow, code: str | None, text: str | None, **values: Any) -> bool:
        """Change the leased cells if the lease still holds on all of them; False when it was lost. ``code`` and
        ``text`` are of the error that ended the try."""
        c = m.Cell
        mine = (c.lease_token == window.token, among(c.cell_id, [cell.id for cell in window.cells]))
        held = sa.select(c.cell_id).where(c.tenant_id == self._tenant, *mine, c.state == WorkState.RUNNING)
        leased = held.order_by(c.cell_id).with_for_update().cte("leased")
        whole = sa.select(sa.func.count()).select_from(leased).scalar_subquery() == len(window.cells)
        change = sa.update(c).where(c.tenant_id == self._tenant, c.cell_id.in_(sa.select(leased.c.cell_id)), whole)
        free = {"lease_token": None, "lease_until": None, "worker_id": None, "error_code": code, "error_text": text}
        return self._db.execute(change.values(**free, **values)).rowcount == len(window.cells)

    def finish_window(
        self,
        window: ClaimedWindow,
        model: str,
        result: WindowResult,
        settings: ExtractSettings,
        fault: tuple[str | None, str | None] = (None, None),
    ) -> bool:
        """Store a window's candidates and end its lease; False when the lease was lost meanwhile. ``fault``: code and
        text of the error for which it was given up (a dead letter too), or of what was left out. Cells stored word by
        word are extracted once more, after a delay that doubles. Candidates that are in the trees are moved aside, to
        items below zero, until the reducer has taken them out."""
        # The forest is locked before its cells, as everywhere: a deletion locks it first.
        if not self.hold_forests([window.forest_id]):
            return False
        later = among(m.Cell.cell_id, [cell.cell_id for cell in result.cells if cell.outcome is Outcome.VERBATIM])
        outcomes = {"outcome": [cell.outcome.value for cell in result.cells]}
        ended_cells = given_rows(_ENDED, columns_of(result.cells, "cell_id", "summary") | outcomes)
        of_cell = ended_cells.c.cell_id == m.Cell.cell_id
        if result.left_out:
            fault = "items_left_out", f"Left out of the model's answer: {result.left_out}."
        ended = self._end(
            window,
            *fault,
            state=WorkState.DONE,
            placed=False,
            extracted_at=sa.func.clock_timestamp(),
            retry_at=sa.case((later, _retry_at(settings))),
            agains=sa.case((later, m.Cell.agains + 1), else_=m.Cell.agains),
            outcome=sa.select(ended_cells.c.outcome).where(of_cell).scalar_subquery(),
            summary=sa.select(ended_cells.c.summary).where(of_cell).scalar_subquery(),
        )
        if not ended:
            return False
        ids = [cell.cell_id for cell in result.cells]
        forgotten = self._clear_candidates(ids)
        candidates = [each for cell in result.cells for each in cell.candidates]
        if candidates:
            said = [each.statement for each in candidates]
            new: dict[str, list[Any]] = columns_of(candidates, "cell_id", "item", "quote") | {
                "turn_ordinals": [list(each.turn_ordinals) for each in candidates],
                "statement": [to_document(each) for each in said],
                "text_hash": [text_hash(each.text) for each in said],
                "routing_hash": [text_hash(each.routing_text) for each in said],
            }
            self._db.execute(adding("candidate", tuple(new)), given_to("candidate", self._tenant, {}, new))
        # Late: a transaction that stores a vector of the same text meanwhile waits for the end.
        own = {OwnText(window.forest_id, text): vector for text, vector in result.vectors.items()}
        self.put_vectors(model, own)
        self.drop_unused(window.forest_id, forgotten)
        if result.answer is not None and result.input_hash is not None:
            of = {"forest_id": window.forest_id, "session_id": window.session_id, "answer": dict(result.answer)}
            paid = insert(m.ExtractionCache).values(tenant_id=self._tenant, input_hash=result.input_hash, **of)
            self._db.execute(paid.on_conflict_do_nothing())
        return True

    def _clear_candidates(self, cells: Sequence[CellId]) -> set[bytes]:
        """Delete the cells' candidates that are not in the trees, and move the others below item 0; hashes of deleted
        texts. Candidates below item 0 are deleted by the reducer, which has locked the forest; their occurrences follow
        by the foreign key. Corrected candidates stay: a correction overrides extraction."""
        k, o = m.CandidateRow, m.OccurrenceRow
        old = (k.tenant_id == self._tenant, among(k.cell_id, cells), k.item.between(0, CORRECTED_ITEM - 1))
        placed = sa.exists().where(o.tenant_id == self._tenant, o.cell_id == k.cell_id, o.item == k.item)
        deleted = self._db.execute(sa.delete(k).where(*old, ~placed).returning(k.text_hash, k.routing_hash))
        hashes = {bytes(key) for row in deleted for key in row}
        self._db.execute(sa.update(k).where(*old).values(item=-1 - k.item))
        return hashes

    def leave_window(self, window: ClaimedWindow, settings: ExtractSettings, code: str, text: str) -> None:
        """End the lease of a window whose cells stay as they are; the next extraction comes after a longer delay."""
        self._end(window, code, text, state=WorkState.DONE, retry_at=_retry_at(settings), agains=m.Cell.agains + 1)

    def retry_window(self, window: ClaimedWindow, delay_s: float, counts: bool, code: str, text: str) -> None:
        """Give the window back for a later try."""
        attempts = m.Cell.attempts if counts else m.Cell.attempts - 1
        later = seconds_from_now(delay_s)
        self._end(window, code, text, state=WorkState.READY, attempts=attempts, available_at=later)

    def split_window(self, window: ClaimedWindow, code: str, text: str) -> None:
        """Give the cells back as windows of their own."""
        self._end(window, code, text, state=WorkState.READY, window_ordinal=m.Cell.ordinal, attempts=0)

    def shorten_window(self, window: ClaimedWindow, cells: int) -> ClaimedWindow:
        """The first ``cells`` of a window, under its lease; the others are given back as a window of their own."""
        own, rest = window.cells[:cells], window.cells[cells:]
        if not rest:
            return window
        free = {"state": WorkState.READY, "attempts": m.Cell.attempts - 1, "window_ordinal": rest[0].ordinal}
        self._end(replace(window, cells=rest), None, None, **free)
        turns = tuple(turn for turn in window.turns if turn.ordinal <= own[-1].last_turn)
        return replace(window, cells=own, turns=turns)

    def bury_window(self, window: ClaimedWindow, code: str, text: str) -> None:
        """Dead-letter the window's cells with the error."""
        self._end(window, code, text, state=WorkState.DEAD, outcome="dead")
