"""What a context reads at once: whose memory, the session's last turns, and the profile that is stored.

One statement, however large the memory is; a second one where no profile is stored yet. A profile is stored in
``summary_cache`` as one about the whole forest: any deletion from the memory drops it in its own transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import sqlalchemy as sa

from memforest_core.assistant.context.records import ContextRequest
from memforest_core.assistant.made_text_rows import MadeTextRows
from memforest_core.domain.ids import FactId, ForestId, SessionId
from memforest_core.store.owners import VISIBLE, ForestRef, find_forest, lock_forest

_SESSION = "s.session_id, s.external_id, s.turn_count, s.channel"
_NAMED = f"""
    SELECT {_SESSION} FROM memforest.session s
     WHERE s.tenant_id = :t AND s.forest_id = f.forest_id AND s.external_id = :session AND s.turn_count > 0
    """  # noqa: S608 - constants of this module
_OF_CHANNEL = "(CAST(:channel AS text) IS NULL OR s.channel = :channel)"
# Notes are no conversation. A session that runs and has no turn yet is an empty window, not the one before it.
_LATEST = f"""
    SELECT * FROM (
        (SELECT 0 AS place, {_SESSION} FROM memforest.running_session r
           JOIN memforest.session s ON s.tenant_id = :t AND s.forest_id = f.forest_id
                                   AND s.external_id = r.external_id
          WHERE r.tenant_id = :t AND r.forest_id = f.forest_id AND s.turn_count > 0 AND {_OF_CHANNEL})
        UNION ALL
        (SELECT 1 AS place, {_SESSION} FROM memforest.session s
          WHERE s.tenant_id = :t AND s.forest_id = f.forest_id AND s.turn_count > 0 AND NOT s.note AND {_OF_CHANNEL}
            AND (CAST(:channel AS text) IS NOT NULL OR NOT EXISTS (
                SELECT 1 FROM memforest.running_session r WHERE r.tenant_id = :t AND r.forest_id = f.forest_id))
          ORDER BY s.updated_at DESC, s.session_id LIMIT 1)) either
     ORDER BY place LIMIT 1
    """  # noqa: S608 - constants of this module


def _stamp(forest: str, subjects: str) -> str:
    """All that a profile is made from, as one value: the facts that it reads, and each place where one was said."""
    fact = "SELECT fact_id, text_hash, pinned, superseded_by, superseded_at FROM memforest.fact"
    of_subjects = f"tenant_id = :t AND forest_id = {forest} AND subject_key = ANY({subjects})"
    return f"""
    SELECT count(*) AS facts,
           sha256(convert_to(coalesce(string_agg(
               concat_ws(chr(31), x.fact_id, encode(x.text_hash, 'hex'), x.pinned,
                         coalesce(CAST(x.superseded_by AS text), ''),
                         coalesce(CAST(extract(epoch FROM x.superseded_at) AS text), ''), coalesce(said.positions, '')),
               chr(30) ORDER BY x.fact_id), ''), 'UTF8')) AS digest
      FROM ((SELECT * FROM ({fact}
              WHERE {of_subjects} AND attribute <> '' AND subject_key <> ''
              ORDER BY key_time DESC, key_ordinal DESC, key_item DESC, fact_id DESC LIMIT :facts) states)
            UNION ALL
            (SELECT * FROM ({fact}
              WHERE {of_subjects} AND pinned AND attribute = '' AND superseded_at IS NULL
              ORDER BY seq DESC LIMIT :pinned) notes)) x
     CROSS JOIN LATERAL (
           SELECT string_agg(o.cell_id || '/' || o.item, ' ' ORDER BY o.cell_id, o.item) AS positions
             FROM memforest.occurrence o WHERE o.tenant_id = :t AND o.fact_id = x.fact_id) said
    """  # noqa: S608 - constants of this module


_STAMP = sa.text(_stamp(":f", "CAST(:subjects AS text[])"))


def _at_hand(session: str) -> sa.TextClause:
    # The profile that is stored names its subjects, so that their facts are looked up by the same statement.
    return sa.text(f"""
    SELECT f.forest_id, f.time_zone, f.state, f.display_name, people.names,
           head.session_id, head.external_id, head.turn_count, head.channel, said.turns,
           EXISTS (SELECT 1 FROM memforest.session_window w
                    WHERE w.tenant_id = :t AND w.session_id = head.session_id) AS compacted,
           EXISTS (SELECT 1 FROM memforest.window_item i
                    WHERE i.tenant_id = :t AND i.session_id = head.session_id) AS items,
           place.key, stored.text AS stored, subjects.keys, stamp.facts, stamp.digest
      FROM memforest.forest f
     CROSS JOIN LATERAL (
           SELECT coalesce(json_agg(json_build_array(p.speaker_id, p.name)
                                    ORDER BY p.since DESC NULLS LAST, p.speaker_id, p.name), '[]') AS names
             FROM memforest.speaker p WHERE p.tenant_id = :t AND p.forest_id = f.forest_id) people
      LEFT JOIN LATERAL ({session}) head ON true
     CROSS JOIN LATERAL (
           SELECT coalesce(json_agg(json_build_array(t.ordinal, t.external_id, t.role, t.name, t.content)
                                    ORDER BY t.ordinal), '[]') AS turns
             FROM (SELECT * FROM memforest.turn
                    WHERE tenant_id = :t AND session_id = head.session_id AND NOT erased
                    ORDER BY ordinal DESC LIMIT :most) t) said
     CROSS JOIN LATERAL (
           SELECT sha256(convert_to(concat_ws(chr(31), 'context', CAST(:version AS text), f.forest_id,
                                              CAST(:person AS text)), 'UTF8')) AS key) place
      LEFT JOIN memforest.summary_cache stored ON stored.tenant_id = :t AND stored.input_hash = place.key
     CROSS JOIN LATERAL (
           SELECT ARRAY(SELECT json_array_elements_text(CAST(stored.text AS json) -> 'keys')) AS keys) subjects
     CROSS JOIN LATERAL ({_stamp("f.forest_id", "subjects.keys")}) stamp
     WHERE f.tenant_id = :t AND f.owner = :owner AND f.state IN ('live', 'frozen')
    """)  # noqa: S608 - constants of this module


_AT_HAND = {True: _at_hand(_NAMED), False: _at_hand(_LATEST)}


@dataclass(frozen=True, slots=True)
class LastTurn:
    """One of a session's last turns."""

    ordinal: int
    id: str
    role: str
    name: str
    content: str


@dataclass(frozen=True, slots=True)
class SessionAtHand:
    """The session of a window, with its last turns that have words."""

    id: SessionId
    external_id: str
    turns: int
    """How many it has in all."""
    channel: str | None
    last: tuple[LastTurn, ...]
    bare: bool
    """Neither a summary nor items are stored for its window."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the facts of somebody are now."""

    facts: int
    digest: bytes
    """Another one as soon as one of them, or a place where one was said, comes, goes or changes."""


@dataclass(frozen=True, slots=True)
class AtHand:
    """Whose memory it is, who speaks in it, the session, and the profile that is stored."""

    forest: ForestRef
    names: Sequence[tuple[str, str]]
    """The id and each name of the human speakers."""
    session: SessionAtHand | None
    key: bytes
    """Where the profile is stored."""
    stored: str | None
    keys: frozenset[str]
    """Names of whom the stored profile is about, normalized."""
    stamp: Stamp
    """Of the facts about these."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The row that a person's merged text is stored in, as it was before the text's sources were read."""

    forest: ForestId
    key: bytes
    mark: str
    """Another one after a deletion."""
    hash: str
    """Of what the stored text was made from, hexadecimal; empty without one."""
    text: str


class ContextRows(MadeTextRows):
    """Rows of one transaction of a tenant."""

    def fence(self, owner: str, person: str, version: int) -> Fence | None:
        """The row of a person's merged text, made if there is none.

        Any deletion drops it in its own transaction, which holds the forest. So it is made under the forest's lock;
        None when another transaction holds it, or the owner has no memory that can be written.
        """
        forest = find_forest(self._db, self._tenant, owner)
        if forest is None or forest.frozen:
            return None
        made_of = json.dumps(["merged", version, str(forest.id), person])
        key = hashlib.sha256(made_of.encode()).digest()
        found = self.made_text(key)
        if found is None:
            if lock_forest(self._db, self._tenant, forest.id, wait=False) not in VISIBLE:
                return None
            found = json.dumps({"mark": uuid4().hex, "hash": "", "text": ""})
            self.put_text(forest.id, key, found, replace=False)
        return Fence(forest.id, key, **json.loads(found))

    def store_merged(self, fence: Fence, hash_: str, text: str) -> bool:
        """Keep a text; False when its row has gone since, or another transaction holds it."""
        found = self.made_text(fence.key, lock=True)
        if found is None or json.loads(found)["mark"] != fence.mark:
            return False
        new = json.dumps({"mark": fence.mark, "hash": hash_, "text": text})
        self.put_text(fence.forest, fence.key, new, replace=True)
        return True

    def at_hand(self, request: ContextRequest, turns: int, version: int, limits: Mapping[str, int]) -> AtHand | None:
        """What is known of an owner, of a session (its last ``turns``) and of a person, by one statement.

        ``version`` is that of what is stored, ``limits`` says how many ``facts`` and ``pinned`` ones a profile reads.
        None without a memory.
        """
        values: dict[str, object] = {"owner": request.owner, "most": turns, "version": version, **limits}
        values["person"] = request.speaker or request.owner
        named = request.session is not None
        values |= {"session": request.session} if named else {"channel": request.channel}
        row = self._run(_AT_HAND[named], **values).first()
        if row is None:
            return None
        frozen = row.state == "frozen"
        head = None
        if row.session_id is not None:
            last = tuple(LastTurn(*turn) for turn in row.turns)
            bare = not (row.compacted or row.items)
            head = SessionAtHand(SessionId(row.session_id), row.external_id, row.turn_count, row.channel, last, bare)
        return AtHand(
            forest=ForestRef(ForestId(row.forest_id), request.owner, row.time_zone, frozen, row.display_name),
            names=[(speaker, name) for speaker, name in row.names],
            session=head,
            key=bytes(row.key),
            stored=row.stored,
            keys=frozenset(row.keys),
            stamp=Stamp(row.facts, bytes(row.digest)),
        )

    def stamp(self, forest: ForestId, keys: Collection[str], limits: Mapping[str, int]) -> Stamp:
        """What somebody's facts are now."""
        row = self._run(_STAMP, f=forest, subjects=sorted(keys), **limits).one()
        return Stamp(row.facts, bytes(row.digest))

    def store(self, of: AtHand, text: str, mentioned: Collection[FactId], limits: Mapping[str, int]) -> bool:
        """Keep a text in place of the one before; False when the facts are others than those it was made from.

        The rows of the text and its facts are locked until the transaction ends: a deletion either is seen here, or
        waits and then finds the text. This waits for no deletion: a text whose facts one has locked is not stored.
        """
        free = self.made_text(of.key, lock=True) is not None or self.made_text(of.key) is None
        if not mentioned or not free or set(self.locked_facts(of.forest.id, mentioned)) != set(mentioned):
            return False
        if self.stamp(of.forest.id, of.keys, limits).digest != of.stamp.digest:
            return False
        self.put_text(of.forest.id, of.key, text, replace=True)
        return True
