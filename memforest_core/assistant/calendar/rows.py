"""Digests in Postgres: the turns of a day are found by the times of their cells; a digest is stored with what they are.

A writer here holds the lock of the forest's row: a deletion waits for it, and nobody waits for two rows.
"""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from memforest_core.assistant.calendar.records import (
    Days,
    DaySource,
    DayTurn,
    HeldDay,
    Span,
    SpeakerDigest,
    StoredDigest,
)
from memforest_core.assistant.rows import PeopleRows
from memforest_core.domain.ids import ForestId
from memforest_core.domain.pages import plain
from memforest_core.domain.people import KnownPerson
from memforest_core.domain.turns import Role
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.store import tables as m
from memforest_core.store.packs import PACKED, Texts


def _turns(columns: str, start: str, end: str) -> str:
    """The turns with words of a time, each once: a long turn is in several cells."""
    return f"""
      SELECT DISTINCT c.session_id, t.ordinal, t.external_id, t.occurred_at {columns}
        FROM memforest.cell c
        JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = c.session_id
                             AND t.ordinal BETWEEN c.first_turn AND c.last_turn
       WHERE c.tenant_id = :t AND c.forest_id = :f AND c.time_end >= {start} AND c.time_start < {end}
         AND t.occurred_at >= {start} AND t.occurred_at < {end} AND NOT t.erased"""


# What was said under an id changes only when it was deleted before; a deletion drops the digest.
_HELD = sa.text(f"""
    SELECT u.span, u.first_day, u.end_day, u.start_at, u.end_at, said.turns AS now, said.own, said.digest, g.version,
           g.texts, g.sources, g.turns, g.left_out, g.source, g.model, g.input_hash, g.made_at,
           g.start_at = u.start_at AND g.end_at = u.end_at AS same
      FROM unnest(CAST(:spans AS text[]), CAST(:firsts AS date[]), CAST(:ends AS date[]),
                  CAST(:starts AS timestamptz[]), CAST(:stops AS timestamptz[]))
           AS u(span, first_day, end_day, start_at, end_at)
     CROSS JOIN LATERAL (
           SELECT count(*) AS turns, count(*) FILTER (WHERE d.speaker_id = ANY(CAST(:ids AS text[]))) AS own,
                  sha256(convert_to(coalesce(string_agg(concat_ws(chr(31), d.session_id, d.ordinal, d.external_id,
                         extract(epoch FROM d.occurred_at)), chr(30) ORDER BY d.session_id, d.ordinal), ''), 'UTF8'))
                  AS digest
             FROM ({_turns(", t.speaker_id", "u.start_at", "u.end_at")}) d WHERE u.span = 'day') said
      LEFT JOIN memforest.calendar_digest g
             ON g.tenant_id = :t AND g.forest_id = :f AND g.span = u.span AND g.first_day = u.first_day
            AND g.person = CASE u.span WHEN 'day' THEN '' ELSE :person END
     ORDER BY u.first_day DESC
    """)

# A turn that is packed meanwhile counts as another: nothing is stored then.
_HASH = """, sha256(convert_to(concat_ws(chr(31), t.session_id, t.ordinal, t.external_id, t.speaker_id, t.name,
                     coalesce(t.content, CAST(t.pack AS text))), 'UTF8')) AS said"""
_WORDS = sa.text(f"""
    SELECT s.external_id AS name, count(*) AS turns, array_agg(d.said) AS said,
           (array_agg(d.external_id ORDER BY d.ordinal))[1] AS first,
           (array_agg(d.external_id ORDER BY d.ordinal DESC))[1] AS last
      FROM ({_turns(_HASH, ":start", ":end")}) d
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = d.session_id
     GROUP BY d.session_id, s.external_id ORDER BY s.external_id
    """)

NOTE = "(note) "
# A note may be under another name of whom it is about; only names that somebody spoke under have a date.
_NEWEST = sa.text(f"""
    SELECT * FROM (
        SELECT t.speaker_id, t.role, left(t.content, :chars) AS content, {PACKED},
               t.occurred_at, t.session_id, t.ordinal, s.note,
               coalesce(CASE WHEN s.note THEN (
                   SELECT k.name FROM memforest.speaker k WHERE k.tenant_id = :t AND k.forest_id = :f
                      AND k.speaker_id = t.speaker_id AND k.since IS NOT NULL ORDER BY k.since DESC LIMIT 1) END,
                   t.name) AS name,
               row_number() OVER (PARTITION BY t.speaker_id
                                  ORDER BY t.occurred_at DESC, t.session_id DESC, t.ordinal DESC) AS place
          FROM ({_turns("", ":start", ":end")}) d
          JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = d.session_id AND t.ordinal = d.ordinal
          JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = d.session_id
         ORDER BY place, t.occurred_at DESC LIMIT :most) n
     ORDER BY n.occurred_at, n.session_id, n.ordinal
    """)

# Sessions of Postgres are in UTC here: a local day lies in two of these days.
_UTC_DAYS = sa.text("""
    SELECT DISTINCT CAST(x.at AS date) AS day FROM memforest.cell c
     CROSS JOIN LATERAL (VALUES (c.time_start), (c.time_end)) AS x(at)
     WHERE c.tenant_id = :t AND c.forest_id = :f AND c.time_end >= :start AND c.time_start < :end
       AND x.at >= :start AND x.at < :end
     ORDER BY day DESC LIMIT :most
    """)

_OLD_WEEKS = sa.text("""
    DELETE FROM memforest.calendar_digest
     WHERE tenant_id = :t AND forest_id = :f AND span = 'week' AND first_day <> :day
    """)


class CalendarRows(PeopleRows):
    """Rows of one transaction of a tenant."""

    def held(
        self, forest: ForestId, wanted: Sequence[Days], zone: ZoneInfo, person: KnownPerson | None
    ) -> list[HeldDay]:
        """What is stored of days and longer times, and of days what their turns are now, the newest first.

        One statement, however many there are. ``person`` is whose times they are, None for those of all.
        """
        moments = [each.moments(zone) for each in wanted]
        rows = self._run(
            _HELD,
            f=forest,
            person="" if person is None else person.id,
            ids=[] if person is None else list(person.ids),
            spans=[each.span.value for each in wanted],
            firsts=[each.first for each in wanted],
            ends=[each.end for each in wanted],
            starts=[start for start, _ in moments],
            stops=[end for _, end in moments],
        )
        return [
            HeldDay(
                days=Days(Span(row.span), row.first_day, row.end_day),
                start=row.start_at,
                end=row.end_at,
                turns=row.now,
                own=row.own,
                digest=bytes(row.digest),
                version=row.version,
                stored=_stored_digest(row) if row.same else None,
            )
            for row in rows
        ]

    def words(self, forest: ForestId, start: datetime, end: datetime) -> tuple[frozenset[bytes], tuple[DaySource, ...]]:
        """What the turns of a time say, as a hash of each, and the sessions that they are of."""
        rows = self._run(_WORDS, f=forest, start=start, end=end).all()
        said = frozenset(bytes(each) for row in rows for each in row.said)
        return said, tuple(DaySource(row.name, row.first, row.last, row.turns) for row in rows)

    def turns(self, forest: ForestId, start: datetime, end: datetime, most: int, chars: int) -> list[DayTurn]:
        """The newest turns of each speaker in a time, at most ``most``, in order; so many characters of each."""
        rows = self._run(_NEWEST, f=forest, start=start, end=end, most=most, chars=chars).all()
        texts = Texts()
        return [
            # A note is under the name of whom it is about, who did not say it.
            DayTurn(
                *(row.speaker_id, row.name, Role(row.role), NOTE * row.note + said[:chars], row.occurred_at),
                str(row.session_id),
            )
            for row in rows
            for said in [texts(row.content, row.packed)]
        ]

    def utc_days(self, forest: ForestId, start: datetime, end: datetime, most: int) -> list[date]:
        """The newest days of UTC in a time on which a cell begins or ends."""
        return list(self._run(_UTC_DAYS, f=forest, start=start, end=end, most=most).scalars())

    def all_there(self, forest: ForestId, versions: Collection[UUID]) -> bool:
        """Whether all these digests are stored still. The caller holds the forest's lock."""
        g = m.CalendarDigest
        own = sa.select(sa.func.count()).where(
            g.tenant_id == self._tenant, g.forest_id == forest, g.version.in_(list(versions))
        )
        return int(self._db.scalar(own) or 0) == len(versions)

    def store(self, forest: ForestId, held: HeldDay, digest: StoredDigest, person: str = "") -> bool:
        """Keep a digest in place of the one that ``held`` has; False when that is not the one that is stored now.

        The caller holds the forest's lock.
        """
        g = m.CalendarDigest
        days = held.days
        key = {"tenant_id": self._tenant, "forest_id": forest, "span": days.span.value, "first_day": days.first}
        key["person"] = person
        version = self._db.scalar(sa.select(g.version).filter_by(**key))
        if version != held.version:
            return False
        values: dict[str, Any] = {field.name: getattr(digest, field.name) for field in fields(digest)}
        values |= {
            "start_at": held.start,
            "end_at": held.end,
            "texts": plain(digest.texts),
            "source": digest.source.value,
        }
        values["sources"] = plain((*digest.sources, *values.pop("days")))
        upsert = insert(g).values(**key, **values)
        self._db.execute(upsert.on_conflict_do_update(index_elements=list(key), set_=values))
        if days.span is Span.WEEK:
            self._run(_OLD_WEEKS, f=forest, day=days.first)
        return True


def _stored_digest(row: sa.Row[Any]) -> StoredDigest:
    values = {field.name: getattr(row, field.name) for field in fields(StoredDigest) if field.name != "days"}
    values["texts"] = tuple(SpeakerDigest(**each) for each in row.texts)
    values["sources"] = tuple(DaySource(**each) for each in row.sources if isinstance(each, dict))
    days = tuple(date.fromisoformat(each) for each in row.sources if isinstance(each, str))
    return StoredDigest(
        **values | {"days": days, "source": SummarySource(row.source), "input_hash": bytes(row.input_hash)}
    )
