"""What a task row keeps of a request to erase: ids, ordinals, digests and microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from memforest_core.domain.ids import FactId, ForestId, SessionId
from memforest_core.domain.times import from_micros, micros
from memforest_core.errors import InvariantViolated
from memforest_core.lifecycle.erase.records import Scope, Target
from memforest_core.work.records import Numbers, OperationTask


def arguments_of(scope: Scope) -> Numbers:
    """A target as the arguments of its task."""
    arguments: dict[str, str | int] = {"target": scope.target.value}
    if scope.session is not None:
        arguments["session"] = str(scope.session)
    if scope.ordinals:
        arguments["turns"] = spans_text(scope.ordinals)
    if scope.fact is not None:
        arguments["fact"] = str(scope.fact)
    if scope.speaker:
        arguments["speaker"] = scope.speaker
    for name, moment in (("since", scope.since), ("until", scope.until)):
        if moment is not None:
            arguments[name] = micros(moment)
    return arguments


def scope_of(task: OperationTask) -> Scope:
    """The target of a task. Raises InvariantViolated for a row that no version of this wrote."""
    if task.forest_id is None or "target" not in task.arguments:
        raise InvariantViolated(f"The erase task {task.id} does not say what to erase.")
    return scope_in(ForestId(task.forest_id), task.arguments)


def scope_in(forest: ForestId, given: Numbers) -> Scope:
    """The target in a forest that a task's arguments name."""
    return Scope(
        target=Target(str(given["target"])),
        forest=forest,
        session=SessionId(UUID(str(given["session"]))) if "session" in given else None,
        ordinals=tuple(ordinals_in(str(given.get("turns", "")))),
        fact=FactId(UUID(str(given["fact"]))) if "fact" in given else None,
        speaker=str(given.get("speaker", "")),
        since=from_micros(int(given["since"])) if "since" in given else None,
        until=from_micros(int(given["until"])) if "until" in given else None,
    )


def spans_text(ordinals: Iterable[int]) -> str:
    """Ordinals as text that stays short for runs of them: 0, 1, 2 and 7 are "0-2,7"."""
    spans: list[list[int]] = []
    for ordinal in sorted(set(ordinals)):
        if spans and ordinal == spans[-1][1] + 1:
            spans[-1][1] = ordinal
        else:
            spans.append([ordinal, ordinal])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def ordinals_in(text: str) -> list[int]:
    """The ordinals of ``spans_text``."""
    ordinals: list[int] = []
    for span in filter(None, text.split(",")):
        first, _, last = span.partition("-")
        ordinals += range(int(first), int(last or first) + 1)
    return ordinals
