"""Sessions of a forest copied into a hidden one: turns, cells, candidates and vectors, and what differs since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId, TreeKind, cell_id, session_id, tree_id
from memforest_core.index.rows import want_indexed
from memforest_core.lifecycle.rebuild.records import Pair, Remaining
from memforest_core.store import tables as m
from memforest_core.store.copying import blanks, copy_forest_rows, copy_rows, given, old
from memforest_core.store.packs import of_sessions, unpack
from memforest_core.store.rows import FIRST, TenantRows
from memforest_core.store.topics import CopiedTurns
from memforest_core.store.trees import bury_points

_MOST_SESSIONS = 200
"""Sessions copied in one transaction, however short they are."""

PARKED = "timestamptz '9000-01-01T00:00:00Z'"
"""When a held cell of the copy would be due: never, because the source's cell is extracted."""

# A cell of the source that is not extracted yet is a held cell in the copy.
_ON_ITS_WAY = """CASE WHEN s.forest_id = :copy THEN c.state = 'held'
                      ELSE NOT (c.placed OR c.state IN ('done', 'dead')) END"""

# What makes two sessions the same, in numbers that do not depend on the order of rows.
_DIFFERING = sa.text(f"""
    WITH named AS (SELECT external_id FROM memforest.session WHERE tenant_id = :t AND session_id = :session),
    digest AS MATERIALIZED (
        SELECT s.session_id, s.forest_id, s.external_id, concat_ws(' ', s.turn_count, s.cell_count,
                   hashtextextended(coalesce(s.channel, ''), 0), hashtextextended(s.metadata::text, 0), (
                   SELECT bit_xor(hashtextextended(concat_ws(' ', c.ordinal, c.first_turn, c.last_turn,
                          encode(c.text_hash, 'hex'), {_ON_ITS_WAY}), 0))
                     FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = s.session_id)) AS cells,
               coalesce((
                   SELECT bit_xor(hashtextextended(t.ordinal::text, 0)) FROM memforest.turn t
                    WHERE t.tenant_id = :t AND t.session_id = s.session_id AND t.erased), 0) AS erased,
               coalesce((
                   SELECT bit_xor(hashtextextended(concat_ws(' ', c.ordinal, k.item, encode(k.text_hash, 'hex')), 0))
                     FROM memforest.cell c
                     JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= 0
                    WHERE c.tenant_id = :t AND c.session_id = s.session_id AND NOT :extract
                      AND NOT ({_ON_ITS_WAY})), 0) AS candidates
          FROM memforest.session s
         WHERE s.tenant_id = :t AND s.forest_id IN (:source, :copy)
           AND (CAST(:session AS uuid) IS NULL OR s.external_id = (SELECT external_id FROM named)))
    SELECT a.session_id AS source, b.session_id AS copy
      FROM (SELECT * FROM digest WHERE forest_id = :source) a
      FULL JOIN (SELECT * FROM digest WHERE forest_id = :copy) b ON b.external_id = a.external_id
     WHERE (a.cells, a.erased, a.candidates) IS DISTINCT FROM (b.cells, b.erased, b.candidates)
     ORDER BY a.session_id LIMIT :n
    """)  # noqa: S608 - a constant

# A cell whose words are all deleted has nothing to extract; its window is left out if all of it is like that.
_CELLS = sa.text("""
    SELECT c.cell_id, c.ordinal, c.state, c.placed,
           NOT (c.placed OR c.state IN ('done', 'dead')) AS on_its_way,
           NOT EXISTS (SELECT 1 FROM memforest.cell w
                         JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = w.session_id
                          AND t.ordinal BETWEEN w.first_turn AND w.last_turn AND NOT t.erased
                        WHERE w.tenant_id = :t AND w.session_id = c.session_id
                          AND w.window_ordinal = c.window_ordinal) AS erased
      FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = :old ORDER BY c.ordinal
    """)

# All vectors of the session's texts: a new extraction mostly says the same. Unused ones are deleted after the switch.
_OF_TEXTS = sa.text("""
    old.text_hash IN (
        SELECT c.text_hash FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = :old
         UNION
        SELECT h.hash FROM memforest.cell c JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id
         CROSS JOIN LATERAL (VALUES (k.text_hash), (k.routing_hash)) AS h(hash)
         WHERE c.tenant_id = :t AND c.session_id = :old)
    AND old.model IN (SELECT model FROM memforest.collection)
    """)

_REMAINING = sa.text("""
    SELECT count(*) FILTER (WHERE c.state IN ('ready', 'running')) AS extracting,
           count(*) FILTER (WHERE c.state = 'done' AND NOT c.placed) AS placing,
           count(*) FILTER (WHERE c.state = 'dead') AS dead,
           (SELECT count(*) FROM memforest.tree r
             WHERE r.tenant_id = :t AND r.forest_id = :f AND r.due_at IS NOT NULL) AS trees,
           (SELECT count(*) FROM memforest.index_row i
             WHERE i.tenant_id = :t AND i.forest_id = :f AND i.indexed_version < i.version
               AND i.state IN ('ready', 'running')) AS points
      FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = :f
    """)

_UPDATED = ("turn_count", "cell_count", "metadata", "updated_at", "origin_owner", "channel", "pinned", "time_zone")
"""What a session's copy gets again when the session has changed."""

# In which state a cell begins decides what is taken over of its extraction.
_STATE = given("state")
_CELL = {
    "lane": 1,
    "agains": sa.case((_STATE == "ready", 0), else_=old("agains")),
    "extracted_at": sa.case((_STATE == "done", sa.func.coalesce(old("extracted_at"), old("created_at")))),
    "available_at": sa.case((_STATE == "held", sa.literal_column(PARKED)), else_=sa.func.clock_timestamp()),
    "error_code": sa.case((_STATE == "dead", old("error_code"))),
    "error_text": sa.case((_STATE == "dead", old("error_text"))),
}
_TOPIC = {
    "state": "candidate",
    "height": 0,
    "leaf_count": 0,
    "centroid": sa.literal_column("decode(repeat('00', octet_length(old.centroid)), 'hex')"),
    "begun_at": sa.func.coalesce(old("begun_at"), sa.func.clock_timestamp()),
    **{name: sa.null() for name in ("root_id", "first_mark_at", "last_mark_at", "due_at", "cold_at", *blanks("tree"))},
}
"""A topic of a copy: its facts are placed again, and its summary and title follow from them."""
_CELL_LEFT_OUT = ("attempts", "placed", "placed_at", "retry_at")


class SessionCopies(TenantRows):
    """Copies sessions of a live forest into the hidden one, in one transaction of a tenant."""

    def after(self, source: ForestId, after: SessionId | None, turns: int) -> Sequence[SessionId]:
        """The next sessions in the order of ids, with about ``turns`` turns together; at least one if any is left."""
        chosen: list[SessionId] = []
        total = 0
        for row in self._db.execute(
            self._select(m.Session.session_id, m.Session.turn_count)
            .where(m.Session.forest_id == source, m.Session.session_id > (after or FIRST))
            .order_by(m.Session.session_id)
            .limit(_MOST_SESSIONS)
        ):
            total += row.turn_count
            if chosen and total > turns:
                break
            chosen.append(SessionId(row.session_id))
        return chosen

    def differing(
        self, pair: Pair, limit: int, session: SessionId | None = None
    ) -> Sequence[tuple[SessionId | None, SessionId | None]]:
        """Sessions (or that one of the source) whose turns, cells, or candidates are not the same in both.

        Each is a pair of ids, of the source and of the copy; None where a forest does not have it.
        """
        rows = self._run(_DIFFERING, **asdict(pair), n=limit, session=session)
        return [(row.source, row.copy) for row in rows]

    def copy(self, pair: Pair, session: SessionId) -> Counter[str]:
        """Copy what is missing in the copy of a session: how many ``sessions``, ``cells`` and ``candidates``.

        Cells that wait for extraction get a row that no worker claims.
        """
        name = self._db.scalar(
            self._select(m.Session.external_id)
            .where(m.Session.session_id == session, m.Session.forest_id == pair.source)
            .with_for_update(read=True)
        )
        if name is None:
            return Counter()
        unpack(self._db, self._tenant, of_sessions([session]))
        new = session_id(pair.copy, name)
        by, ids = {"session_id": [session]}, {"session_id": [new]}
        statement = copy_rows("session", self._tenant, by, ids, {"forest_id": pair.copy})
        updated = {column: statement.excluded[column] for column in _UPDATED}
        self._db.execute(statement.on_conflict_do_update(index_elements=["tenant_id", "session_id"], set_=updated))
        last = sa.select(sa.func.coalesce(sa.func.max(m.TurnRow.ordinal), -1)).where(
            m.TurnRow.tenant_id == self._tenant, m.TurnRow.session_id == new
        )
        self._db.execute(copy_rows("turn", self._tenant, by, ids, {}, where=old("ordinal") > last.scalar_subquery()))
        self._db.execute(copy_forest_rows("speaker", self._tenant, pair.source, pair.copy))
        texts = _OF_TEXTS.bindparams(t=self._tenant, old=session)
        self._db.execute(copy_forest_rows("vector", self._tenant, pair.source, pair.copy, texts))
        self._copy_topics(pair, session, new)
        return self._copy_cells(pair, session, new)

    def _copy_topics(self, pair: Pair, session: SessionId, new: SessionId) -> None:
        """Topics that ``append`` chose, without facts: their turns' facts go there when they are placed."""
        said = CopiedTurns({session: (new, 0)}, matched=True)
        copies = {
            topic: tree_id(pair.copy, TreeKind.SCENE, str(topic)) for topic in said.topics(self._db, self._tenant)
        }
        ids = {"tree_id": copies.values(), "scope_key": list(map(str, copies.values()))}
        statement = copy_rows("tree", self._tenant, {"tree_id": copies}, ids, _TOPIC | {"forest_id": pair.copy})
        self._db.execute(statement.on_conflict_do_nothing(index_elements=["tenant_id", "tree_id"]))
        said.copy(self._db, self._tenant, pair.copy, copies)

    def remaining(self, copy: ForestId) -> Remaining:
        """What the copy still has to do."""
        return Remaining(**self._run(_REMAINING, f=copy).one()._asdict())

    def _copy_cells(self, pair: Pair, session: SessionId, new: SessionId) -> Counter[str]:
        """Cells that are not there yet or only have a place, and the candidates of those that are extracted."""
        cells = self._run(_CELLS, old=session).all()
        of_copy = (m.Cell.tenant_id == self._tenant, m.Cell.session_id == new)
        dropped = sa.delete(m.Cell).where(*of_copy, m.Cell.state == "held").returning(m.Cell.ordinal, m.Cell.cell_id)
        held = {row.ordinal: row.cell_id for row in self._db.execute(dropped)}
        bury_points(self._db, self._tenant, [held[gone] for gone in held.keys() - {c.ordinal for c in cells}])
        there = set(self._db.scalars(sa.select(m.Cell.ordinal).where(*of_copy)))
        missing = [cell for cell in cells if cell.ordinal not in there]
        if not missing:
            return Counter()
        copies = {cell.cell_id: cell_id(new, cell.ordinal) for cell in missing}
        outcome = "empty" if pair.extract else sa.func.coalesce(old("outcome"), "ok")
        statement = copy_rows(
            "cell",
            self._tenant,
            {"cell_id": copies},
            {"cell_id": copies.values(), "state": [_state(cell, pair.extract) for cell in missing]},
            _CELL
            | {
                "forest_id": pair.copy,
                "session_id": new,
                "outcome": sa.case((_STATE.in_(("ready", "held")), sa.null()), else_=outcome),
            },
            left_out=_CELL_LEFT_OUT,
        )
        self._db.execute(statement.on_conflict_do_nothing(index_elements=["tenant_id", "cell_id"]))
        done = [cell.cell_id for cell in missing if not cell.on_its_way and not pair.extract]
        by, ids = {"cell_id": done}, {"cell_id": [copies[cell] for cell in done]}
        statement = copy_rows("candidate", self._tenant, by, ids, {}, where=old("item") >= 0)
        statement = statement.on_conflict_do_nothing(index_elements=["tenant_id", "cell_id", "item"])
        candidates = self._db.execute(statement).rowcount
        want_indexed(self._db, self._tenant, pair.copy, "cell", list(copies.values()), lane=1)
        return Counter(sessions=int(not there), cells=len(missing), candidates=candidates)


def _state(cell: sa.Row[Any], extract: bool) -> str:
    """In which state a cell's copy begins."""
    if cell.on_its_way:
        return "held"
    if extract:
        return "done" if cell.erased else "ready"
    return "dead" if cell.state == "dead" and not cell.placed else "done"
