"""Sizes of a forest and costs of its calls, in Postgres: the numbers of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import CellId, ForestId, LeaseToken, SessionId, TreeId, TreeKind
from memforest_core.domain.turns import Turn
from memforest_core.ingest.extract.records import CONTEXT_TURNS, ClaimedCell, ClaimedWindow
from memforest_core.ingest.refresh.rows import MAX_CHILD_CHARS
from memforest_core.lifecycle.rebuild.records import Counts, PlannedTree, Spent
from memforest_core.lifecycle.rebuild.rows.session_copies import SessionCopies
from memforest_core.models.calls import Step
from memforest_core.store import tables as m
from memforest_core.store.rows import FIRST, TenantRows
from memforest_core.store.turn_rows import turn_of

_NO_TOKEN = LeaseToken(UUID(int=0))
"""These windows are not claimed."""

_COUNTS = sa.text("""
    SELECT count(*) AS sessions, coalesce(sum(s.turn_count), 0) AS turns, coalesce(sum(s.cell_count), 0) AS cells,
           coalesce(sum(k.candidates), 0) AS candidates, coalesce(sum(k.chars), 0) AS candidate_chars,
           coalesce(sum(k.text_chars), 0) AS text_chars
      FROM memforest.session s
     CROSS JOIN LATERAL (
           SELECT count(*) AS candidates, sum(length(k.statement::text) + length(k.quote)) AS chars,
                  sum(length(k.statement ->> 'text')) AS text_chars
             FROM memforest.cell c JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
            WHERE c.tenant_id = :t AND c.session_id = s.session_id AND k.item >= 0) k
     WHERE s.tenant_id = :t AND s.forest_id = :source
    """)

# Labels, which routing vectors are made with, are few: they are not counted. Cells are embedded under their date.
_UNEMBEDDED = sa.text("""
    SELECT count(*) AS texts, coalesce(sum(chars), 0) AS chars FROM (
        SELECT k.text_hash, max(length(k.statement ->> 'text')) AS chars
          FROM memforest.cell c JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= 0
         WHERE c.tenant_id = :t AND c.forest_id = :source
         GROUP BY k.text_hash
         UNION ALL
        SELECT text_hash, max(length(to_char(time_start AT TIME ZONE 'UTC', 'FMDay FMDD FMMonth YYYY ')) + length(text))
          FROM memforest.cell WHERE tenant_id = :t AND forest_id = :source GROUP BY text_hash) texts
     WHERE NOT EXISTS (SELECT 1 FROM memforest.vector v
                        WHERE v.tenant_id = :t AND v.forest_id = :source AND v.model = :model
                          AND v.text_hash = texts.text_hash)
    """)

_WINDOWS = sa.text("""
    SELECT c.*, f.owner, f.display_name, f.time_zone AS zone FROM memforest.cell c
      JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = c.forest_id
     WHERE c.tenant_id = :t AND c.session_id = ANY(CAST(:sessions AS uuid[]))
       AND (c.placed OR c.state IN ('done', 'dead'))
     ORDER BY c.session_id, c.window_ordinal, c.ordinal
    """)

_TREES = sa.text("""
    WITH picked AS (
        SELECT tree_id, kind, label FROM memforest.tree
         WHERE tenant_id = :t AND forest_id = :source AND state = 'active' AND tree_id > :after
         ORDER BY tree_id LIMIT :n)
    SELECT p.tree_id, p.kind, p.label, left(coalesce(nullif(c.summary, ''), c.text, f.text, ''), :most) AS text
      FROM picked p
      JOIN memforest.node n ON n.tenant_id = :t AND n.tree_id = p.tree_id AND n.level = 0
      LEFT JOIN memforest.cell c ON c.tenant_id = :t AND c.cell_id = n.payload_id
      LEFT JOIN memforest.fact f ON f.tenant_id = :t AND f.fact_id = n.payload_id
     ORDER BY p.tree_id, n.key_time, n.key_ordinal, n.key_item, n.key_id
    """)

_SPENT = sa.text("""
    SELECT count(*) AS calls, coalesce(sum(prompt_tokens), 0) AS prompt, coalesce(sum(completion_tokens), 0) AS written,
           coalesce(sum(cost_usd), 0) AS cost, coalesce(sum(cached_tokens), 0) AS cached
      FROM memforest.llm_call WHERE tenant_id = :t AND step = :step AND model = :model AND outcome = 'ok'
    """)


class PlanRows(TenantRows):
    """Reads what a plan counts."""

    def counts(self, source: ForestId, model: str) -> Counts:
        """The sizes of the forest; ``model`` is the embedding model."""
        held = {name: int(count) for name, count in self._run(_COUNTS, source=source).one()._asdict().items()}
        missing = self._run(_UNEMBEDDED, source=source, model=model).one()
        return Counts(**held, unembedded=missing.texts, unembedded_chars=int(missing.chars))

    def windows_after(
        self, source: ForestId, after: SessionId | None, turns: int
    ) -> tuple[list[ClaimedWindow], SessionId | None]:
        """Windows that would be extracted again, of the next sessions, and the last of these sessions."""
        chosen = SessionCopies(self._db, self._tenant).after(source, after, turns)
        if not chosen:
            return [], None
        said = self._turns(chosen)
        rows = self._run(_WINDOWS, sessions=chosen)
        windows = [
            _window(list(cells), said[session][0])
            for (session, _), cells in groupby(rows, key=lambda row: (row.session_id, row.window_ordinal))
        ]
        whole = [each for each in windows if not {turn.ordinal for turn in each.turns} <= said[each.session_id][1]]
        return whole, chosen[-1]

    def _turns(self, sessions: Sequence[UUID]) -> dict[UUID, tuple[list[Turn], set[int]]]:
        """The turns of each session in order, and the ordinals of those that are erased."""
        found: dict[UUID, tuple[list[Turn], set[int]]] = defaultdict(lambda: ([], set()))
        rows = self._db.execute(
            sa.select(m.TurnRow.__table__)
            .where(m.TurnRow.tenant_id == self._tenant, m.TurnRow.session_id.in_(sessions))
            .order_by(m.TurnRow.session_id, m.TurnRow.ordinal)
        )
        for row in rows.mappings():
            turns, erased = found[row["session_id"]]
            turns.append(turn_of(row))
            if row["erased"]:
                erased.add(row["ordinal"])
        return found

    def cached_answers(self, hashes: Sequence[bytes]) -> frozenset[bytes]:
        """Which extractions were paid for before."""
        found = self._db.scalars(
            sa.select(m.ExtractionCache.input_hash).where(
                m.ExtractionCache.tenant_id == self._tenant, m.ExtractionCache.input_hash.in_(hashes)
            )
        )
        return frozenset(bytes(key) for key in found)

    def trees_after(self, source: ForestId, after: TreeId | None, limit: int) -> Sequence[PlannedTree]:
        """The next active trees in the order of ids."""
        rows = self._run(_TREES, source=source, after=after or FIRST, n=limit, most=MAX_CHILD_CHARS)
        return [
            PlannedTree(TreeId(tree), TreeKind(kind), label, tuple(leaf.text for leaf in leaves))
            for (tree, kind, label), leaves in groupby(rows, key=lambda row: (row.tree_id, row.kind, row.label))
        ]

    def paid_summaries(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        rows = self._db.execute(
            sa.select(m.Summary.input_hash, m.Summary.text).where(
                m.Summary.tenant_id == self._tenant, m.Summary.input_hash.in_(hashes)
            )
        )
        return {bytes(row.input_hash): row.text for row in rows}

    def spent(self, step: Step, model: str) -> Spent:
        """What the tenant's successful calls of a step and model have cost."""
        row = self._run(_SPENT, step=step.value, model=model).one()
        return Spent(row.calls, int(row.prompt), int(row.written), float(row.cost), int(row.cached))


def _window(cells: Sequence[sa.Row[Any]], turns: Sequence[Turn]) -> ClaimedWindow:
    """The window as extraction would claim it."""
    head, last = cells[0], max(cell.last_turn for cell in cells)
    first = head.first_turn
    return ClaimedWindow(
        token=_NO_TOKEN,
        forest_id=ForestId(head.forest_id),
        session_id=SessionId(head.session_id),
        owner=head.owner,
        time_zone=head.zone,
        attempts=0,
        live=False,
        trace=None,
        retries_verbatim=False,
        cells=tuple(
            ClaimedCell(CellId(c.cell_id), c.ordinal, c.first_turn, c.last_turn, c.char_start, c.char_end)
            for c in cells
        ),
        turns=tuple(turns[first : last + 1]),
        context=tuple(turns[max(0, first - CONTEXT_TURNS) : first]),
        display_name=head.display_name,
    )
