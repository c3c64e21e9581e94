"""Packs: the texts of turns of a cold topic compressed together, out of ``turn.content`` until somebody warms them.

Who reads a turn's text in Python selects ``PACKED`` too, and gives both to ``Texts``. What computes with texts inside
Postgres or copies turns calls ``unpack`` first, in its transaction.
"""

# ruff: noqa: S608 - statements are made of constants of this module

from __future__ import annotations

import bz2
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import UUID

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, SessionId, TenantId, TreeId
from memforest_core.errors import InvariantViolated
from memforest_core.store import tables as m
from memforest_core.store.topics import TOPIC, TURNS

LEAST_BYTES = 4_000
"""Smaller packs save less than 55%, of which the columns of a packed turn take a third back."""
MOST_BYTES = 100_000
"""Of a pack: reading a turn sends its pack, and above it compresses hardly better."""

AT_ONCE = 10
"""Packs that one transaction makes: half a second under the forest's lock."""

PACKED = "memforest.packed(t.tenant_id, t.pack, t.session_id, t.ordinal) AS packed"
"""The column that a statement over turns ``t`` has besides their content."""

Text = tuple[UUID, int, str]
"""A turn's session, ordinal and content."""


def packed_of(turn: type[m.TurnRow]) -> sa.ColumnElement[bytes]:
    """The same column for a statement that is no text."""
    return sa.func.memforest.packed(turn.tenant_id, turn.pack, turn.session_id, turn.ordinal).label("packed")


class Texts:
    """The texts of rows of one result; each pack is decompressed once."""

    def __init__(self) -> None:
        self._packs: dict[bytes, dict[bytes, str]] = {}

    def __call__(self, content: str | None, packed: bytes | None) -> str:
        """A row's text, of its columns ``content`` and ``packed``. Raises InvariantViolated when there is none."""
        if content is not None:
            return content
        place, texts = bytes(packed or b"")[:20], bytes(packed or b"")[20:]
        if texts not in self._packs:
            self._packs[texts] = {_place(session, ordinal): text for session, ordinal, text in unpacked(texts)}
        found = self._packs[texts].get(place)
        if found is None:
            raise InvariantViolated("A turn's text is in no pack: memforest verify names what is missing.")
        return found


def _place(session: UUID, ordinal: int) -> bytes:
    return session.bytes + ordinal.to_bytes(4, "big")


def compressed(texts: Sequence[Text]) -> bytes:
    """A pack of texts. bz2 compresses 10 kB and 100 kB of talk best of what Python has, and needs no dictionary, which
    would have words of people."""
    said: dict[str, dict[int, str]] = {}
    for session, ordinal, text in texts:
        said.setdefault(session.hex, {})[ordinal] = text
    return bz2.compress(json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode())


def unpacked(texts: bytes) -> list[Text]:
    """The texts of a pack. Raises InvariantViolated when it can't be read."""
    try:
        said = json.loads(bz2.decompress(texts))
        return [(UUID(session), int(at), text) for session, turns in said.items() for at, text in turns.items()]
    except (OSError, ValueError, AttributeError) as error:
        raise InvariantViolated("A pack of turns can't be read: memforest verify names it.") from error


def packs_of(texts: Sequence[Text]) -> Iterator[tuple[list[Text], int]]:
    """The texts of a topic in packs, with their bytes; a rest that is too small for one is left out."""
    some: list[Text] = []
    size = 0
    for each in texts:
        some.append(each)
        size += len(each[2].encode())
        if size >= MOST_BYTES:
            yield some, size
            some, size = [], 0
    if size >= LEAST_BYTES:
        yield some, size


_OF_TEXTS = """unnest(CAST(:sessions AS uuid[]), CAST(:ordinals AS int[]), CAST(:texts AS text[]))
           AS u(session, at, text)
     WHERE t.tenant_id = :t AND t.session_id = u.session AND t.ordinal = u.at"""
_LOOSE = sa.text(f"""
    SELECT r.tree_id FROM memforest.tree r
     WHERE {TOPIC} AND r.cold_at IS NOT NULL
       AND (SELECT coalesce(sum(octet_length(t.content)), 0) FROM {TURNS}) >= :least
     ORDER BY r.cold_at, r.tree_id LIMIT :n
""")
# Turns of a session that is being copied or appended to are left to the next round.
_UNPACKED = sa.text(f"""
    SELECT t.session_id, t.ordinal, t.content
      FROM (SELECT r.* FROM memforest.tree r WHERE {TOPIC} AND r.tree_id = :tree AND r.cold_at IS NOT NULL) r
     CROSS JOIN LATERAL (SELECT t.* FROM {TURNS}) t
      JOIN memforest.session s ON s.tenant_id = :t AND s.session_id = t.session_id
     WHERE t.pack IS NULL ORDER BY t.session_id, t.ordinal FOR NO KEY UPDATE OF s SKIP LOCKED
""")
_PUT = sa.text(f"""
    UPDATE memforest.turn t SET content = NULL, pack = :pack, is_question = right(t.content, 8) ~ :end
      FROM {_OF_TEXTS} AND t.content = u.text
""")
_LOCKED = sa.text("""
    SELECT p.pack, p.texts, p.turns FROM memforest.turn_pack p
     WHERE p.tenant_id = :t AND p.pack = ANY(CAST(:packs AS int[])) ORDER BY p.pack FOR UPDATE
""")
_TAKE = sa.text(f"""
    UPDATE memforest.turn t SET content = u.text, pack = NULL, is_question = NULL
      FROM {_OF_TEXTS} AND t.pack = :pack
""")
QUESTION = "[?\uff1f\u061f]\\W*$"
"""How a text ends that is a question: closing quotes or a smiley may follow its mark."""


def loose(connection: sa.Connection, tenant: TenantId, forest: ForestId, most: int) -> Sequence[TreeId]:
    """Cold topics with turns that are to be packed, at most so many."""
    return connection.scalars(_LOOSE, {"t": tenant, "f": forest, "least": LEAST_BYTES, "n": most}).all()


def pack(connection: sa.Connection, tenant: TenantId, forest: ForestId, topic: TreeId) -> int:
    """Pack turns of a cold topic, a part of them when there are many; how many. The caller holds the forest's lock."""
    done = 0
    rows = connection.execute(_UNPACKED, {"t": tenant, "f": forest, "tree": topic}).all()
    for some, size in islice(packs_of([(row.session_id, row.ordinal, row.content) for row in rows]), AT_ONCE):
        new = {"forest_id": forest, "tree_id": topic, "texts": compressed(some), "turns": len(some)}
        made = sa.insert(m.TurnPack).values(tenant_id=tenant, text_bytes=size, **new).returning(m.TurnPack.pack)
        _move(connection, tenant, _PUT, int(connection.execute(made).scalar_one()), some, end=QUESTION)
        done += len(some)
    return done


def unpack(connection: sa.Connection, tenant: TenantId, which: sa.ColumnElement[bool], most: int | None = None) -> int:
    """Give turns their texts back, of all packs (or ``most``) for which this is true; how many turns.

    The caller holds the lock of the forest or of the sessions.
    """
    p, done = m.TurnPack, 0
    packs = list(connection.scalars(sa.select(p.pack).where(p.tenant_id == tenant, which).limit(most)))
    for row in connection.execute(_LOCKED, {"t": tenant, "packs": packs}).all() if packs else ():
        _move(connection, tenant, _TAKE, row.pack, unpacked(row.texts))
        connection.execute(sa.delete(p).where(p.tenant_id == tenant, p.pack == row.pack))
        done += row.turns
    return done


def of_topics(topics: Sequence[TreeId]) -> sa.ColumnElement[bool]:
    """That a pack was made of one of these topics."""
    r, p = m.Tree, m.TurnPack
    forests = sa.select(r.forest_id).where(r.tenant_id == p.tenant_id, r.tree_id.in_(topics))
    return p.forest_id.in_(forests) & p.tree_id.in_(topics)


def of_no_cold_topic(forest: ForestId) -> sa.ColumnElement[bool]:
    """That a pack is of this forest, and its topic is warm or gone."""
    r, p = m.Tree, m.TurnPack
    cold = sa.exists().where(r.tenant_id == p.tenant_id, r.tree_id == p.tree_id, r.cold_at.is_not(None))
    return (p.forest_id == forest) & ~cold


def of_sessions(sessions: Sequence[SessionId]) -> sa.ColumnElement[bool]:
    """That a pack has a turn of one of these sessions."""
    t, p = m.TurnRow, m.TurnPack
    has = (t.tenant_id == p.tenant_id, t.session_id.in_(sessions), t.pack.is_not(None))
    return p.pack.in_(sa.select(t.pack).where(*has))


def _move(
    connection: sa.Connection, tenant: TenantId, statement: sa.TextClause, pack: int, texts: Sequence[Text], **more: str
) -> None:
    """Move texts into their pack or out of it: all of them or none."""
    sessions, ordinals, contents = (list(column) for column in zip(*texts, strict=True))
    values = {"t": tenant, "pack": pack, "sessions": sessions, "ordinals": ordinals, "texts": contents, **more}
    if connection.execute(statement, values).rowcount != len(texts):
        raise InvariantViolated("A pack's turns are not those that have it: memforest verify names it.")
