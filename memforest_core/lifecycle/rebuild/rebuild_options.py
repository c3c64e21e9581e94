"""The options of a rebuild as a task's arguments, and back."""

from __future__ import annotations

from uuid import UUID, uuid5

from memforest_core.domain.ids import ForestId
from memforest_core.ingest.reduce.forest_rules import WHOLE, deviating, ruled
from memforest_core.ingest.reduce.records import HELD, Rules
from memforest_core.lifecycle.rebuild.records import Options
from memforest_core.settings import Settings
from memforest_core.work.records import Numbers, TaskId

_SPACE = UUID("a0b7a3c2-54f1-5c39-8f63-72656d617465")
_RULE = "rule."
_EXTRACT = "extract"
_SUMMARIES = "summaries"


def arguments_of(options: Options) -> dict[str, str | int]:
    """The options as ids and numbers."""
    rules: dict[str, str | int] = {
        f"{_RULE}{name}": repr(value) for name, value in sorted(_plain(options.rules).items())
    }
    flags = {_EXTRACT: options.extract, _SUMMARIES: options.summaries}
    return rules | {name: 1 for name, given in flags.items() if given}


def options_of(arguments: Numbers) -> Options:
    """The options of ``arguments_of``."""
    rules = {
        name.removeprefix(_RULE): int(value) if name.removeprefix(_RULE) in WHOLE else float(value)
        for name, value in arguments.items()
        if name.startswith(_RULE)
    }
    return Options(rules, bool(arguments.get(_EXTRACT)), bool(arguments.get(_SUMMARIES)))


def rules_of(settings: Settings, now: Rules, changed: Rules) -> dict[str, float]:
    """The rules that the forest will have: its own, then the changed ones. Raises InvalidInput."""
    ruled(settings, changed)
    return deviating(settings, {name: value for name, value in now.items() if name != HELD} | _plain(changed))


def _plain(rules: Rules) -> dict[str, float]:
    """Whole numbers as such, however they were given, so that equal requests are the same."""
    whole = {name: int(value) for name, value in rules.items() if name in WHOLE and value == int(value)}
    return dict(rules) | whole


def copy_of(task: TaskId) -> ForestId:
    """The hidden forest of a task: the same each time a step is taken, and as random as the task's id."""
    return ForestId(uuid5(_SPACE, str(task)))
