"""Garbage is collected again after an import, however it ended, and in a child that was forked meanwhile."""

from __future__ import annotations

import gc
import os

import pytest

from memforest_core.domain.extras import uncollected


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), uncollected():
        raise ImportError
    assert gc.isenabled()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_collects_though_a_thread_of_its_parent_imports() -> None:
    with uncollected():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_what_is_imported_already_leaves_the_collectors_counts() -> None:
    """Given one call after another that needs a package, then young garbage does not become old each time."""
    counted = gc.get_count()
    with uncollected():
        assert not gc.isenabled()
    assert gc.get_count() >= counted
