"""A timeline's reads in Postgres: whole chains in one statement each, however long they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from memforest_core.domain.ids import FactId, ForestId, SessionId, TreeId
from memforest_core.domain.state_order import Mention, StoredState
from memforest_core.recall.records import TurnKey
from memforest_core.recall.rows.sql import KNOWN_BY_THEN, WANTED_TURNS
from memforest_core.recall.states import KnownChain, SourceTurn
from memforest_core.store.owners import ForestRows
from memforest_core.store.packs import PACKED, Texts
from memforest_core.store.statements import from_document
from memforest_core.store.trees import MEMBERS

_STATES = """
    SELECT f.fact_id, f.subject_key, f.attribute, f.statement, f.key_time, f.key_ordinal, f.key_item, f.created_at,
           f.superseded_by, f.superseded_at"""
_LATEST_FIRST = "ORDER BY f.key_time DESC, f.key_ordinal DESC, f.key_item DESC, f.fact_id DESC LIMIT :n"

OF_SUBJECTS = sa.text(f"""
    {_STATES}
      FROM memforest.fact f
     WHERE f.tenant_id = :t AND f.forest_id = :f AND f.attribute <> ''
       AND f.subject_key = ANY(CAST(:subjects AS text[])) AND f.subject_key <> ''
       AND (CAST(:attributes AS text[]) IS NULL OR f.attribute = ANY(CAST(:attributes AS text[])))
     {_LATEST_FIRST}
    """)

OF_ATTRIBUTES = sa.text(f"""
    {_STATES}
      FROM memforest.fact f
     WHERE f.tenant_id = :t AND f.forest_id = :f AND f.attribute <> '' AND f.subject_key <> ''
       AND (CAST(:attributes AS text[]) IS NULL OR f.attribute = ANY(CAST(:attributes AS text[])))
     {_LATEST_FIRST}
    """)

# LIMIT 1 makes the lookup of each fact an index probe, whatever the planner takes the placements for.
OF_TREES = sa.text(f"""
    {_STATES}
      FROM (SELECT DISTINCT payload_id FROM {MEMBERS} p
             WHERE tree_id = ANY(CAST(:trees AS uuid[]))) p
     CROSS JOIN LATERAL (
        SELECT * FROM memforest.fact WHERE tenant_id = :t AND fact_id = p.payload_id LIMIT 1) f
     {_LATEST_FIRST}
    """)  # noqa: S608 - constants of this module

SCENES = sa.text("""
    SELECT tree_id, label FROM memforest.tree
     WHERE tenant_id = :t AND forest_id = :f AND kind = 'scene' AND state <> 'merged'
     ORDER BY leaf_count DESC, label, tree_id
    """)

CHAINS = sa.text("""
    SELECT subject_key, min(statement ->> 'subject') AS subject, attribute, count(*) AS facts FROM memforest.fact
     WHERE tenant_id = :t AND forest_id = :f AND attribute <> '' AND subject_key <> ''
     GROUP BY subject_key, attribute ORDER BY facts DESC, subject_key, attribute
    """)

# Whether a state is current depends on its last mention, and since when it is known on its first one.
MENTIONS = sa.text(f"""
    SELECT w.id AS fact_id, o.session_id, o.turn_ordinals, o.occurred_at,
           (SELECT quote FROM memforest.candidate k
             WHERE k.tenant_id = :t AND k.cell_id = o.cell_id AND k.item = o.item) AS quote
      FROM unnest(CAST(:facts AS uuid[])) AS w(id)
     CROSS JOIN LATERAL (
        SELECT session_id, turn_ordinals, occurred_at, cell_id, item FROM (
            SELECT o.session_id, o.turn_ordinals, t.occurred_at, o.cell_id, o.item,
                   row_number() OVER said AS place, count(*) OVER () AS mentions
              FROM memforest.occurrence o
             CROSS JOIN LATERAL (
                SELECT occurred_at FROM memforest.turn
                 WHERE tenant_id = :t AND session_id = o.session_id AND ordinal = o.turn_ordinals[1] LIMIT 1) t
             WHERE o.tenant_id = :t AND o.fact_id = w.id
               AND (CAST(:until AS timestamptz) IS NULL OR t.occurred_at <= CAST(:until AS timestamptz))
               AND {KNOWN_BY_THEN}
            WINDOW said AS (ORDER BY t.occurred_at, o.session_id, o.turn_ordinals)) every
         WHERE place <= CAST(:n AS int) / 2 OR place > mentions - (CAST(:n AS int) + 1) / 2
         ORDER BY place) o
    """)  # noqa: S608 - constants of this package

SOURCES = sa.text(f"""
    SELECT t.session_id, t.ordinal, t.external_id, s.external_id AS session_external_id, t.name, t.occurred_at,
           left(t.content, :chars) AS content, {PACKED}
      {WANTED_TURNS}
     CROSS JOIN LATERAL (
        SELECT external_id FROM memforest.session WHERE tenant_id = :t AND session_id = w.session_id LIMIT 1) s
    """)  # noqa: S608 - constants of this package


class TimelineRows(ForestRows):
    """Rows of one read transaction. Facts come latest first, at most ``limit``."""

    def of_subjects(
        self, forest: ForestId, subjects: Collection[str], attributes: Collection[str] | None, limit: int
    ) -> list[StoredState]:
        """The facts that set any of these attributes (None: any at all) of these subjects (normalized names)."""
        wanted = None if attributes is None else sorted(attributes)
        return self._states(OF_SUBJECTS, f=forest, subjects=sorted(subjects), attributes=wanted, n=limit)

    def of_attributes(self, forest: ForestId, attributes: Collection[str] | None, limit: int) -> list[StoredState]:
        """The facts that set any of these attributes (None: any at all) of anybody."""
        wanted = None if attributes is None else sorted(attributes)
        return self._states(OF_ATTRIBUTES, f=forest, attributes=wanted, n=limit)

    def of_trees(self, trees: Collection[TreeId], limit: int) -> list[StoredState]:
        """The facts in these trees, each once, with or without an attribute."""
        return self._states(OF_TREES, trees=list(trees), n=limit)

    def scenes(self, forest: ForestId) -> list[tuple[TreeId, str]]:
        """The live scenes with their labels, largest first."""
        return [(TreeId(row.tree_id), row.label) for row in self._run(SCENES, f=forest)]

    def chains(self, forest: ForestId) -> list[KnownChain]:
        """All chains of subject and attribute, longest first."""
        rows = self._run(CHAINS, f=forest)
        return [KnownChain(row.subject_key, row.subject, row.attribute, row.facts) for row in rows]

    def mentions(self, facts: Sequence[FactId], until: datetime | None, limit: int) -> list[Mention]:
        """For each fact its mentions, at or before ``until``: ``limit`` times, the first and the last ones. What
        was corrected after ``until`` was not said yet."""
        if not facts:
            return []
        return [
            Mention(
                fact_id=FactId(row.fact_id),
                session_id=SessionId(row.session_id),
                turn_ordinals=tuple(row.turn_ordinals),
                said_at=row.occurred_at.astimezone(UTC),
                quote=row.quote,
            )
            for row in self._run(MENTIONS, facts=list(facts), until=until, n=limit)
        ]

    def turns(self, keys: Collection[TurnKey], chars: int) -> Mapping[TurnKey, SourceTurn]:
        """Those of the turns that exist, with at most ``chars`` of their text."""
        if not keys:
            return {}
        wanted = sorted(keys)
        sessions, ordinals = [session for session, _ in wanted], [ordinal for _, ordinal in wanted]
        texts = Texts()
        return {
            (SessionId(row.session_id), row.ordinal): SourceTurn(
                session_id=row.session_external_id,
                turn_id=row.external_id,
                speaker=row.name,
                said_at=row.occurred_at.astimezone(UTC),
                text=texts(row.content, row.packed)[:chars],
            )
            for row in self._run(SOURCES, sessions=sessions, ordinals=ordinals, chars=chars)
        }

    def _states(self, statement: sa.TextClause, **values: object) -> list[StoredState]:
        return [
            StoredState(
                id=FactId(row.fact_id),
                subject_key=row.subject_key,
                attribute=row.attribute,
                statement=from_document(row.statement),
                key=(row.key_time, row.key_ordinal, row.key_item),
                known_since=row.created_at.astimezone(UTC),
                superseded_by=FactId(row.superseded_by) if row.superseded_by else None,
                superseded_at=row.superseded_at.astimezone(UTC) if row.superseded_at else None,
            )
            for row in self._run(statement, **values)
        ]
