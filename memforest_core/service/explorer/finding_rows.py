"""Reads across owners: sessions by their first words, search in names and texts, turns and calls over time.

No index finds words within texts under row security, so each statement reads a bounded part: the newest sessions by
``ix_session_updated``, the newest facts of their owners by ``ix_fact_seq``. A search reads no further, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import FactId, TreeId
from memforest_core.errors import InvalidInput
from memforest_core.observe.reading.records import StoredOwner
from memforest_core.store.owners import find_forest, speakers_of
from memforest_core.store.packs import PACKED, Texts
from memforest_core.store.rows import TenantRows, record_of

SEARCHED_SESSIONS = 500
"""The newest sessions, whose turns are searched."""
SEARCHED_FACTS = 20_000
"""Of each owner of these sessions the newest facts, and as many of all of them."""
WORDS = 8
"""Words of a search that count."""
MAX_CHARS = 200
"""Of a search."""
FIRST_CHARS = 200
_SPECIAL, _PLAIN = re.compile(r"[%_\\]"), r"\\\g<0>"

_OURS = """f.tenant_id = :t AND f.state IN ('live', 'frozen')
       AND (CAST(:owners AS text[]) IS NULL OR f.owner = ANY(CAST(:owners AS text[])))"""
_RECENT = f"""
    WITH recent AS (
        SELECT s.session_id, s.forest_id, s.external_id, s.started_at, s.updated_at, s.turn_count, s.channel, f.owner
          FROM memforest.session s JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = s.forest_id
         WHERE s.tenant_id = :t AND {_OURS}
         ORDER BY s.updated_at DESC, s.started_at DESC LIMIT :most
    )"""  # noqa: S608 - constants of this module
_HEAD = f"""
    SELECT r.owner, r.external_id AS session, r.started_at, r.turn_count AS turns, coalesce(first.title, '') AS title,
           coalesce(first.name, '') AS speaker,
           coalesce(left(first.content, {FIRST_CHARS}), CASE WHEN first.packed IS NULL THEN '' END)
           AS content, first.packed
      FROM recent r
      LEFT JOIN LATERAL (SELECT t.name, t.content, {PACKED}, t.metadata->>'title' AS title FROM memforest.turn t
                          WHERE t.tenant_id = :t AND t.session_id = r.session_id AND NOT t.erased
                          ORDER BY t.ordinal LIMIT 1) first ON true"""  # noqa: S608 - constants of this module
_NEWEST = sa.text(f"{_RECENT} {_HEAD} ORDER BY r.updated_at DESC, r.started_at DESC")
_SESSIONS = sa.text(f"""{_RECENT} {_HEAD}
     WHERE concat_ws(' ', r.external_id, r.channel, first.title) ILIKE ALL (CAST(:patterns AS text[]))
     ORDER BY r.updated_at DESC LIMIT :limit""")
_ACTIVE = sa.text(f"""{_RECENT}
    SELECT o.owner, o.display_name, o.updated_at, n.sessions, n.turns,
           (SELECT count(*) FROM memforest.fact WHERE tenant_id = :t AND forest_id = o.forest_id) AS facts
      FROM (SELECT r.forest_id, r.owner, f.display_name, max(r.updated_at) AS updated_at
              FROM recent r JOIN memforest.forest f ON f.tenant_id = :t AND f.forest_id = r.forest_id
             GROUP BY r.forest_id, r.owner, f.display_name ORDER BY 4 DESC LIMIT :limit) o
      JOIN LATERAL (SELECT count(*) AS sessions, coalesce(sum(turn_count), 0) AS turns
                      FROM memforest.session WHERE tenant_id = :t AND forest_id = o.forest_id) n ON true
     ORDER BY o.updated_at DESC, o.owner""")  # noqa: S608 - constants of this module
_BEGUN = sa.text(f"""
    WITH recent AS (
        SELECT s.*, f.owner FROM memforest.session s JOIN memforest.forest f USING (tenant_id, forest_id)
         WHERE s.tenant_id = :t AND f.owner = :owner AND f.state IN ('live', 'frozen')
           AND s.external_id = ANY(CAST(:sessions AS text[]))
    ) {_HEAD}""")  # noqa: S608 - constants of this module
_WORK = sa.text("""
    SELECT b.at, coalesce(c.turns, 0) AS turns, coalesce(l.calls, 0) AS calls, coalesce(l.cost, 0) AS cost
      FROM generate_series(CAST(:since AS timestamptz), :until, make_interval(secs => :step)) b(at)
      LEFT JOIN (SELECT date_bin(make_interval(secs => :step), c.created_at, :since) AS at,
                        sum(c.last_turn - c.first_turn + 1) AS turns
                   FROM memforest.session s
                   JOIN memforest.cell c ON c.tenant_id = :t AND c.session_id = s.session_id
                  WHERE s.tenant_id = :t AND s.updated_at >= :since AND c.created_at >= :since
                    AND coalesce(c.char_start, 0) = 0 GROUP BY 1) c ON c.at = b.at
      LEFT JOIN (SELECT date_bin(make_interval(secs => :step), at, :since) AS at, count(*) AS calls,
                        sum(cost_usd) AS cost
                   FROM memforest.llm_call WHERE tenant_id = :t AND at >= :since GROUP BY 1) l ON l.at = b.at
     ORDER BY b.at""")
_DAYS = sa.text("""
    SELECT (t.occurred_at AT TIME ZONE f.time_zone)::date AS day, count(*) AS turns
      FROM memforest.forest f
      JOIN memforest.session s ON s.tenant_id = :t AND s.forest_id = f.forest_id
      JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = s.session_id AND NOT t.erased AND t.dated
     WHERE f.tenant_id = :t AND f.owner = :owner AND f.state IN ('live', 'frozen')
     GROUP BY 1 ORDER BY 1""")
_TOPICS = sa.text("""
    SELECT r.tree_id AS id, r.label, coalesce(r.title_source, '') AS source, coalesce(left(s.text, 600), '') AS summary,
           (SELECT array_agg(n.key_time) FROM memforest.node n
             WHERE n.tenant_id = :t AND n.tree_id = r.tree_id AND n.level = 0) AS times
      FROM memforest.tree r LEFT JOIN memforest.node_summary s ON s.tenant_id = :t AND s.node_id = r.root_id
     WHERE r.tenant_id = :t AND r.tree_id = ANY(CAST(:trees AS uuid[]))""")
_TURNS = sa.text(f"""{_RECENT}
    SELECT r.owner, r.external_id AS session, t.external_id AS turn, t.name AS speaker, t.content, {PACKED},
           t.occurred_at AS at
      FROM recent r JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = r.session_id
     WHERE NOT t.erased AND (t.content ILIKE ALL (CAST(:patterns AS text[])) OR (t.pack IS NOT NULL AND EXISTS (
           SELECT 1 FROM memforest.cell c WHERE c.tenant_id = :t AND c.session_id = t.session_id
              AND t.ordinal BETWEEN c.first_turn AND c.last_turn AND c.text ILIKE ALL (CAST(:patterns AS text[])))))
     ORDER BY t.occurred_at DESC LIMIT :limit""")  # noqa: S608 - constants of this module
_FACTS = sa.text(f"""{_RECENT}
    SELECT owner, fact_id AS fact, text, mentioned_at AS at
      FROM (SELECT o.owner, x.* FROM (SELECT DISTINCT forest_id, owner FROM recent) o
             CROSS JOIN LATERAL (SELECT fact_id, text, mentioned_at FROM memforest.fact
                                  WHERE tenant_id = :t AND forest_id = o.forest_id AND superseded_by IS NULL
                                  ORDER BY seq DESC LIMIT {SEARCHED_FACTS}) x LIMIT {SEARCHED_FACTS}) found
     WHERE text ILIKE ALL (CAST(:patterns AS text[])) ORDER BY mentioned_at DESC LIMIT :limit""")  # noqa: S608 - constants of this module
_OWNERS = sa.text(f"""
    SELECT f.owner, coalesce(f.display_name, '') AS name FROM memforest.forest f
     WHERE {_OURS} AND concat_ws(' ', f.owner, f.display_name) ILIKE ALL (CAST(:patterns AS text[]))
     ORDER BY f.owner LIMIT :limit""")  # noqa: S608 - constants of this module


@dataclass(frozen=True, slots=True)
class SessionHead:
    """A session and how it begins."""

    owner: str
    session: str
    started_at: datetime
    turns: int
    title: str
    """That an import found; empty when there was none."""
    speaker: str
    words: str
    """The beginning of its first turn; empty when all was forgotten."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """A turn or a fact that has the searched words."""

    owner: str
    text: str
    at: datetime
    session: str = ""
    turn: str = ""
    speaker: str = ""
    fact: FactId | None = None


@dataclass(frozen=True, slots=True)
class WorkAt:
    """Turns that were accepted and model calls that ended from a moment on, for one step of a chart."""

    at: datetime
    turns: int
    calls: int
    cost: float


@dataclass(frozen=True, slots=True)
class TopicText:
    """What a topic's title is made of, and when its facts happened."""

    id: TreeId
    label: str
    """Its domain; empty for none."""
    source: str
    """``terms``: the title is a list of key words."""
    summary: str
    times: Sequence[int] | None
    """Microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Found:
    """What has all words of a search, at most so many of each kind, the newest first."""

    owners: Sequence[tuple[str, str]]
    """Ids and names."""
    sessions: Sequence[SessionHead]
    facts: Sequence[FoundText]
    turns: Sequence[FoundText]

    @property
    def empty(self) -> bool:
        """Whether nothing was found."""
        return not (self.owners or self.sessions or self.facts or self.turns)


def searched_words(text: str) -> list[str]:
    """The words of a search that count. Raises InvalidInput."""
    if len(text) > MAX_CHARS:
        raise InvalidInput(f"Search for at most {MAX_CHARS} characters.", code="search_too_long")
    return text.split()[:WORDS]


class FindingRows(TenantRows):
    """Reads of one transaction of a tenant, of these owners or with None of all."""

    def newest(self, owners: Sequence[str] | None, most: int) -> Sequence[SessionHead]:
        """The sessions that were written to last."""
        found = self._run(_NEWEST, owners=owners, most=most)
        return _heads(found)

    def begun(self, owner: str, sessions: Sequence[str]) -> Mapping[str, SessionHead]:
        """How these sessions of an owner begin, by their ids."""
        found = self._run(_BEGUN, owner=owner, sessions=list(sessions))
        return {head.session: head for head in _heads(found)}

    def active(self, owners: Sequence[str] | None, limit: int) -> Sequence[StoredOwner]:
        """The owners of the newest sessions, the one that was written to last first."""
        found = self._run(_ACTIVE, owners=owners, most=SEARCHED_SESSIONS, limit=limit)
        return [record_of(StoredOwner, row) for row in found]

    def work(self, since: datetime, until: datetime, step_s: int) -> Sequence[WorkAt]:
        """What was accepted and called in each step of so many seconds."""
        return [record_of(WorkAt, row) for row in self._run(_WORK, since=since, until=until, step=step_s)]

    def days(self, owner: str) -> Mapping[date, int]:
        """Turns of an owner by the day they were said, in the owner's time zone; those without a date are left out."""
        return {row.day: row.turns for row in self._run(_DAYS, owner=owner)}

    def topics(self, trees: Sequence[TreeId]) -> Mapping[TreeId, TopicText]:
        """What topics are about, by their ids."""
        return {TreeId(row.id): record_of(TopicText, row) for row in self._run(_TOPICS, trees=list(trees))}

    def speakers(self, owner: str) -> Collection[str]:
        """The words of the names of an owner's speakers, and the owner's id, all in lower case."""
        found = find_forest(self._db, self._tenant, owner)
        spoken = [] if found is None else speakers_of(self._db, self._tenant, found.id)
        return {word for _, name in [("", owner), *spoken] for word in name.casefold().split()}

    def search(self, words: Sequence[str], owners: Sequence[str] | None, limit: int) -> Found:
        """Owners, sessions, facts and turns that have all of these words, wherever in a word they are."""
        patterns = [f"%{_SPECIAL.sub(_PLAIN, word)}%" for word in words]
        given: dict[str, Any] = {"patterns": patterns, "owners": owners, "limit": limit}
        named = self._run(_OWNERS, **given)
        given["most"] = SEARCHED_SESSIONS
        texts = Texts()
        turns = [record_of(FoundText, row, text=texts(row.content, row.packed)) for row in self._run(_TURNS, **given)]
        # Of a packed turn only its cell was searched, which has the words of its neighbours too.
        turns = [turn for turn in turns if all(word.casefold() in turn.text.casefold() for word in words)]
        return Found(
            [(row.owner, row.name) for row in named],
            _heads(self._run(_SESSIONS, **given)),
            [record_of(FoundText, row) for row in self._run(_FACTS, **given)],
            turns,
        )


def _heads(rows: Iterable[sa.Row[*tuple[Any, ...]]]) -> list[SessionHead]:
    texts = Texts()
    return [record_of(SessionHead, row, words=texts(row.content, row.packed)[:FIRST_CHARS]) for row in rows]
