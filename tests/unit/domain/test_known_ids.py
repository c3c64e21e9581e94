"""Known ids are UUIDs in everything but the time that they take."""

from __future__ import annotations

import copy
import json
import pickle
from uuid import UUID, uuid4

import pytest

from memforest_core.domain import ids as known_ids
from memforest_core.domain.ids import KnownId, KnownIds


def test_a_known_id_is_the_uuid_of_its_text() -> None:
    known, plain = KnownIds(), [uuid4() for _ in range(100)] + [UUID(int=0), UUID(int=2**128 - 1)]
    for id_ in plain:
        made = known[str(id_)]
        assert isinstance(made, UUID) and known[str(id_)] is made
        assert (made, hash(made), str(made), f"{made}") == (id_, hash(id_), str(id_), f"{id_}")
        by_plain, by_known = dict.fromkeys([id_], 1), {key: 1 for key in (UUID(int=5), made)}
        assert (made.bytes, made.version, by_plain[made], by_known[id_]) == (id_.bytes, id_.version, 1, 1)
    assert sorted(known[str(id_)] for id_ in plain) == sorted(plain)
    assert len({*plain, *known.values()}) == len(plain)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda id_: pickle.loads(pickle.dumps(id_))])
def test_a_copy_is_a_plain_uuid(copied: object) -> None:
    id_ = KnownIds()[str(uuid4())]
    made = copied(id_)  # type: ignore[operator]
    assert type(made) is UUID
    assert {made: json.dumps(str(made))} == {id_: json.dumps(str(id_))}


def test_the_number_of_cached_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "CACHED_IDS", 10)
    known = KnownIds()
    for number in range(35):
        assert isinstance(known[str(UUID(int=number))], KnownId)
        assert len(known) <= 10
