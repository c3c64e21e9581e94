"""Sizes of a forest and costs of its calls, in Postgres: the numbers of a plan."""

from __future__ import annotations

import sqlalchemy as sa

from memforest_core.domain.ids import ForestId, TreeKind
from memforest_core.lifecycle.rebuild.records import Counts, Spent, TreesAlike
from memforest_core.models.calls import Step
from memforest_core.store.rows import TenantRows

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
        SELECT c.forest_id, k.text_hash, max(length(k.statement ->> 'text')) AS chars
          FROM memforest.cell c JOIN memforest.candidate k ON k.tenant_id = :t AND k.cell_id = c.cell_id AND k.item >= 0
         WHERE c.tenant_id = :t AND (CAST(:f AS uuid) IS NULL OR c.forest_id = :f) GROUP BY 1, 2
         UNION ALL
        SELECT forest_id, text_hash,
               max(length(to_char(time_start AT TIME ZONE 'UTC', 'FMDay FMDD FMMonth YYYY ')) + length(text))
          FROM memforest.cell WHERE tenant_id = :t AND (CAST(:f AS uuid) IS NULL OR forest_id = :f) GROUP BY 1, 2) texts
     WHERE NOT EXISTS (SELECT 1 FROM memforest.vector v
                        WHERE v.tenant_id = :t AND v.forest_id = texts.forest_id AND v.model = :model
                          AND v.text_hash = texts.text_hash)
    """)

# A window whose words are all deleted has nothing to extract.
_WINDOWS = sa.text("""
    SELECT count(*) AS windows, coalesce(sum(w.cells), 0) AS window_cells, coalesce(sum(w.chars), 0) AS window_chars
      FROM (SELECT count(*) AS cells, sum(length(c.text)) AS chars FROM memforest.cell c
             WHERE c.tenant_id = :t AND c.forest_id = :source AND (c.placed OR c.state IN ('done', 'dead'))
             GROUP BY c.session_id, c.window_ordinal
            HAVING bool_or(EXISTS (SELECT 1 FROM memforest.turn r
                                    WHERE r.tenant_id = :t AND r.session_id = c.session_id AND NOT r.erased
                                      AND r.ordinal BETWEEN c.first_turn AND c.last_turn))) w
    """)

_TREES = sa.text("""
    SELECT r.kind, r.k, r.leaf_count AS leaves, count(*) AS trees,
           CASE r.kind WHEN 'session' THEN (SELECT avg(length(coalesce(nullif(c.summary, ''), c.text)))
                                              FROM memforest.cell c WHERE c.tenant_id = :t AND c.forest_id = :source)
                       ELSE (SELECT avg(length(f.text)) FROM memforest.fact f
                              WHERE f.tenant_id = :t AND f.forest_id = :source) END AS chars
      FROM memforest.tree r
     WHERE r.tenant_id = :t AND r.forest_id = :source AND r.state = 'active' AND r.leaf_count > 0
     GROUP BY r.kind, r.k, r.leaf_count ORDER BY r.kind, r.k, r.leaf_count
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
        held = self._run(_COUNTS, source=source).one()._asdict() | self._run(_WINDOWS, source=source).one()._asdict()
        texts, chars = self.unembedded(model, source)
        return Counts(**{name: int(n) for name, n in held.items()}, unembedded=texts, unembedded_chars=chars)

    def unembedded(self, model: str, forest: ForestId | None = None) -> tuple[int, int]:
        """How many texts of cells and candidates, of one forest or of all, have no vector of the model; their
        characters."""
        missing = self._run(_UNEMBEDDED, f=forest, model=model).one()
        return missing.texts, int(missing.chars)

    def trees(self, source: ForestId) -> list[TreesAlike]:
        """Active trees by kind, branching and size."""
        rows = self._run(_TREES, source=source)
        return [TreesAlike(TreeKind(row.kind), row.k, row.leaves, row.trees, int(row.chars or 0)) for row in rows]

    def spent(self, step: Step, model: str) -> Spent:
        """What the tenant's successful calls of a step and model have cost."""
        row = self._run(_SPENT, step=step.value, model=model).one()
        return Spent(row.calls, int(row.prompt), int(row.written), float(row.cost), int(row.cached))
