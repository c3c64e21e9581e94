"""Checks a whole bundle before anything is written: checksums, values, ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.domain.turns import checked_name
from memforest_core.errors import InvalidInput
from memforest_core.lifecycle.bundle.checking import (
    BundleLimits,
    RowChecks,
    check_rules,
    check_zone,
    damaged,
    statement_of,
    texts_of,
)
from memforest_core.lifecycle.bundle.file_format import Digests
from memforest_core.lifecycle.bundle.id_table import IdTable
from memforest_core.lifecycle.bundle.new_ids import NewIds
from memforest_core.lifecycle.bundle.reader import BundleReader
from memforest_core.lifecycle.bundle.records import FACT, NAMED, TABLES, VECTOR
from memforest_core.lifecycle.bundle.rows.imported import ImportRows
from memforest_core.models.calls import Embedder
from memforest_core.settings import Settings
from memforest_core.store.engine import Engine
from memforest_core.store.vectors import text_hash

PAGE = 1_000
"""Rows in memory at once."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A bundle that was checked."""

    reader: BundleReader
    ids: IdTable
    with_vectors: bool
    """Whether its vectors are taken."""
    to_embed: int
    """Texts that have to be embedded."""


def accepted_model(reader: BundleReader, embedder: Embedder, without_vectors: bool) -> bool:
    """Whether the bundle's vectors are taken. Raises InvalidInput when they are another model's and requested."""
    head = reader.head
    same = (head.embedding_model, head.dimension) == (embedder.model, embedder.dimension)
    if head.with_vectors and not same and not without_vectors:
        raise InvalidInput(
            f"This bundle's vectors are of {head.embedding_model} ({head.dimension} dimensions), this memory uses"
            f" {embedder.model} ({embedder.dimension}): import it without vectors and its texts are embedded.",
            code="other_embedding_model",
        )
    return head.with_vectors and not without_vectors


def inspect(
    reader: BundleReader,
    ids: IdTable,
    embedder: Embedder,
    settings: Settings,
    without_vectors: bool,
    watch: Callable[[int], None],
) -> Seen:
    """Read all rows once: every value checked, every digest compared. Raises InvalidInput."""
    head = reader.head
    with_vectors = accepted_model(reader, embedder, without_vectors)
    checked_name(head.forest.owner, "the bundle's owner")
    if head.forest.display_name is not None:
        checked_name(head.forest.display_name, "the bundle's display name")
    check_zone(head.forest.time_zone)
    check_rules(settings, head.forest.rules)
    limits = BundleLimits(settings.accept.max_turns, settings.accept.max_turn_bytes, head.dimension)
    checks = RowChecks(limits)
    names = NewIds(reader, head.forest.forest_id, ids)
    digests, done = Digests(), 0
    for table in TABLES:
        found = 0
        for page in reader.rows(table, 0, PAGE):
            checks.check(table, page)
            digests.add(table, page)
            if table is FACT:
                for row in page:
                    statement_of(FACT, row)
            if table is VECTOR:
                hashes = [bytes(row[0]) for row in page if isinstance(row[0], bytes)]
                if ids.drop(hashes) != len(hashes):
                    raise damaged("vector: of a text that is not there")
            ids.want(text_hash(text) for text in texts_of(table, page))
            names.learn(table, page)
            found += len(page)
            done += len(page)
            watch(done)
        if found != head.rows[table.name] or digests.of(table) != head.digests[table.name]:
            raise damaged(f"{table.name}: its checksum is another")
    to_embed = ids.wanted() + (0 if with_vectors else head.rows[VECTOR.name])
    return Seen(reader, ids, with_vectors, to_embed)


def choose_forest(tenant: TenantId, seen: Seen, engine: Engine) -> ForestId:
    """The bundle's own forest, if nothing of it is taken; else a new one, in which everything gets a new id.

    Rows of other tenants may have the same ids: their keys and their points' ids are made of the tenant too.
    """
    own = seen.reader.head.forest.forest_id
    with ImportRows.opened(engine, tenant) as rows:
        if rows.used("forest", [own]):
            return ForestId(uuid4())
        for table in NAMED.values():
            for page in seen.reader.rows(table, 0, PAGE):
                if rows.used(table.stored, [UUID(str(row[0])) for row in page]):
                    return ForestId(uuid4())
    return own


def rename(seen: Seen, forest: ForestId) -> NewIds:
    """The ids that everything gets in ``forest``."""
    new = NewIds(seen.reader, forest, seen.ids)
    if new.renamed:
        seen.ids.clear()
        for table in NAMED.values():
            for page in seen.reader.rows(table, 0, PAGE):
                new.learn(table, page)
    return new
