"""Many rows at once: COPY into every table, in the order in which tables refer to each other."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
import sqlalchemy as sa

from memforest_core.domain.ids import TenantId


class Copies:
    """Rows by table, in the order in which tables refer to each other; written with COPY."""

    COLUMNS: Mapping[str, str] = {
        "speaker": "forest_id, speaker_id, name",
        "session": "session_id, forest_id, external_id, time_zone, started_at, turn_count, cell_count",
        "turn": "session_id, ordinal, external_id, role, content, occurred_at, dated, speaker_id, name",
        "cell": "cell_id, forest_id, session_id, ordinal, window_ordinal, first_turn, last_turn, text, text_hash,"
        " time_start, time_end, placed, outcome, extracted_at, placed_at, state",
        "candidate": "cell_id, item, turn_ordinals, quote, statement, text_hash, routing_hash",
        "fact": "fact_id, forest_id, text, normalized, text_hash, time_start, time_end, mentioned_at, subject_key,"
        " attribute, statement, key_time, key_ordinal, key_item",
        "occurrence": "cell_id, item, fact_id, session_id, turn_ordinals",
        "tree": "tree_id, forest_id, kind, scope_key, label, state, k, root_id, height, leaf_count, session_id,"
        " domain, centroid, time_start, time_end, marks, last_mark_at",
        "node": "node_id, tree_id, parent_id, level, key_time, key_ordinal, key_item, key_id, time_start, time_end,"
        " leaf_count, version, clean_version, payload_id",
        "placement": "tree_id, payload_id, session_id",
        "node_summary": "node_id, text, source, model, input_hash, version, vector, vector_model, pooled, terms",
        "vector": "forest_id, model, text_hash, vector, tokens",
        "index_row": "point_id, forest_id, kind, version, indexed_version, state",
    }

    def __init__(self, tenant: TenantId) -> None:
        self._tenant = tenant
        self._rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in self.COLUMNS}
        self.waiting = 0
        """Rows that are not written yet."""

    def add(self, table: str, *values: object) -> None:
        """One row, in the order of the table's columns."""
        self._rows[table].append((self._tenant, *values))
        self.waiting += 1

    def write(self, engine: sa.Engine) -> None:
        """Write all rows in one transaction of the tables' owner, and forget them."""
        with engine.begin() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, psycopg.Connection)
            cursor = raw.cursor()
            for table, columns in self.COLUMNS.items():
                with cursor.copy(f"COPY memforest.{table} (tenant_id, {columns}) FROM STDIN") as copy:
                    for row in self._rows[table]:
                        copy.write_row(row)
                self._rows[table].clear()
        self.waiting = 0
