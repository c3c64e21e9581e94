"""Reads across owners: sessions by their first words, search in names and texts, turns and calls over time.

No index finds words within texts under row security, so each statement reads a bounded part: the newest sessions by
``ix_session_updated``, the newest facts of their owners by ``ix_fact_seq``. A search reads no further, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from memforest_core.domain.ids import FactId
from memforest_core.store.rows import TenantRows, record_of

SEARCHED_SESSIONS = 500
"""The newest sessions, whose turns are searched."""
SEARCHED_FACTS = 20_000
"""Of each owner of these sessions the newest facts, and as many of all of them."""
WORDS = 8
"""Words of a search that count."""
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
           coalesce(first.name, '') AS speaker, coalesce(left(first.content, {FIRST_CHARS}), '') AS words
      FROM recent r
      LEFT JOIN LATERAL (SELECT name, content, metadata->>'title' AS title FROM memforest.turn
                          WHERE tenant_id = :t AND session_id = r.session_id AND NOT erased
                          ORDER BY ordinal LIMIT 1) first ON true"""  # noqa: S608 - constants of this module
_NEWEST = sa.text(f"{_RECENT} {_HEAD} ORDER BY r.updated_at DESC, r.started_at DESC")
_SESSIONS = sa.text(f"""{_RECENT} {_HEAD}
     WHERE concat_ws(' ', r.external_id, r.channel, first.title) ILIKE ALL (CAST(:patterns AS text[]))
     ORDER BY r.updated_at DESC LIMIT :limit""")
_TURNS = sa.text(f"""{_RECENT}
    SELECT r.owner, r.external_id AS session, t.external_id AS turn, t.name AS speaker, t.content AS text,
           t.occurred_at AS at
      FROM recent r JOIN memforest.turn t ON t.tenant_id = :t AND t.session_id = r.session_id
     WHERE NOT t.erased AND t.content ILIKE ALL (CAST(:patterns AS text[]))
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
    """The words of a search that count."""
    return text.split()[:WORDS]


class FindingRows(TenantRows):
    """Reads of one transaction of a tenant, of these owners or with None of all."""

    def newest(self, owners: Sequence[str] | None, most: int) -> Sequence[SessionHead]:
        """The sessions that were written to last."""
        found = self._run(_NEWEST, owners=owners, most=most)
        return [record_of(SessionHead, row) for row in found]

    def search(self, words: Sequence[str], owners: Sequence[str] | None, limit: int) -> Found:
        """Owners, sessions, facts and turns that have all of these words, wherever in a word they are."""
        patterns = [f"%{_SPECIAL.sub(_PLAIN, word)}%" for word in words]
        given: dict[str, Any] = {"patterns": patterns, "owners": owners, "limit": limit}
        named = self._run(_OWNERS, **given)
        given["most"] = SEARCHED_SESSIONS
        return Found(
            [(row.owner, row.name) for row in named],
            [record_of(SessionHead, row) for row in self._run(_SESSIONS, **given)],
            [record_of(FoundText, row) for row in self._run(_FACTS, **given)],
            [record_of(FoundText, row) for row in self._run(_TURNS, **given)],
        )
