"""Names of points: the same as ever, because an index that was filled before must still be found by them."""

from __future__ import annotations

import hashlib
from uuid import UUID

from memforest_core.domain.ids import ForestId, TenantId
from memforest_core.index.qdrant.collection_schema import point_id, space
from memforest_core.index.vector_index import PointKey

ACME, ALICE = TenantId("acme"), ForestId(UUID(int=0xA11CE))


def test_a_point_is_the_fifth_version_of_a_uuid_over_its_forest_and_its_row() -> None:
    rows = [UUID(int=number**9) for number in range(1, 200)]
    for row in rows:
        point = point_id(PointKey(ACME, ALICE, row))
        digest = hashlib.sha1(space(ACME, ALICE).bytes + row.bytes, usedforsecurity=False).digest()
        assert point == UUID(bytes=digest[:16], version=5)
        assert (point.version, hash(point), str(UUID(str(point)))) == (5, hash(UUID(str(point))), str(point))
