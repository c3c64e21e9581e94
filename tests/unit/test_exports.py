"""What a user catches and annotates comes from ``memforest_core`` itself."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import memforest_core
from memforest_core.errors import MemForestError

NEVER_LEAVE = {
    "UncitedError": "answering ends it in a sentence of ``degraded``",
    "ImportTakenOver": "the task's own",
    "CorrectionStuck": "the task's own",
    "NotPlacedYet": "the task's own",
    "StillMaterializing": "the task's own",
    "CopyLost": "the task's own",
    "WriterAtWork": "the task's own",
    "SourceMismatch": "recall ends it in a sentence of ``degraded``",
    "IndexDamaged": "callers meet it as an IndexUnavailable",
    "PortRefused": "for the command line",
    "BackupUnusable": "for the command line",
}


def errors(base: type[MemForestError] = MemForestError) -> Iterator[type[MemForestError]]:
    for error in base.__subclasses__():
        yield error
        yield from errors(error)


def test_every_error_that_a_caller_can_meet_is_exported() -> None:
    for module in pkgutil.walk_packages(memforest_core.__path__, "memforest_core."):
        # Frameworks have an environment of their own; what is written for them has no errors of its own.
        if not any(part in module.name for part in (".migrations.", ".integrations.", "__main__")):
            importlib.import_module(module.name)
    known = {error.__name__ for error in errors() if error.__module__.startswith("memforest")}
    assert known - NEVER_LEAVE.keys() <= set(memforest_core.__all__)
    assert NEVER_LEAVE.keys() <= known


def test_every_exported_name_is_there() -> None:
    for name in memforest_core.__all__:
        assert getattr(memforest_core, name).__module__.startswith("memforest_core.")
    assert set(memforest_core.__all__) <= set(dir(memforest_core))
