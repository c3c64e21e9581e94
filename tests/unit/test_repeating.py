"""What Postgres broke off for another transaction's sake is done again, a few times."""

from __future__ import annotations

import pytest

from memforest_core.errors import MemForestError, StoreContended, StoreUnavailable
from memforest_core.store.repeating import TRIES, repeated


class Failing:
    """Fails some times, then answers."""

    def __init__(self, *faults: MemForestError) -> None:
        self._faults = list(faults)
        self.tries = 0

    @repeated
    def run(self) -> str:
        self.tries += 1
        if self._faults:
            raise self._faults.pop(0)
        return "done"


@pytest.mark.parametrize("state", ["40P01", "40001", "55P03"])
def test_a_unit_that_was_broken_off_is_run_again(state: str) -> None:
    unit = Failing(StoreContended(state), StoreContended(state))
    assert unit.run() == "done"
    assert unit.tries == 3


def test_after_so_many_tries_the_last_error_is_raised() -> None:
    unit = Failing(*[StoreContended("40P01")] * TRIES)
    with pytest.raises(StoreContended, match="40P01"):
        unit.run()
    assert unit.tries == TRIES


def test_what_is_no_contention_is_raised_at_once() -> None:
    unit = Failing(StoreUnavailable("Postgres is away."))
    with pytest.raises(StoreUnavailable):
        unit.run()
    assert unit.tries == 1
