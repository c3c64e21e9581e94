"""A rebuild's options, what it reads from the store, and its plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from uuid import UUID, uuid5

from memforest_core.domain.ids import ForestId, NodeId, TreeKind
from memforest_core.ingest.reduce.records import HELD, WHOLE, Rules, deviating, ruled
from memforest_core.ingest.refresh.records import ChildText
from memforest_core.settings import Settings
from memforest_core.work.records import Numbers, TaskId


@dataclass(frozen=True, slots=True)
class Pair:
    """A live forest and the hidden one that will take its place."""

    source: ForestId
    copy: ForestId
    extract: bool
    """Cells of the copy are extracted again; else their candidates are copied."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What the copy still has to do, and its cells that can't be done."""

    extracting: int
    placing: int
    trees: int
    points: int
    dead: int

    @property
    def placed(self) -> bool:
        """Whether every cell is in the trees."""
        return self.extracting + self.placing == 0

    @property
    def done(self) -> bool:
        """Whether the copy is placed, refreshed and indexed."""
        return self.placed and self.trees + self.points == 0


@dataclass(frozen=True, slots=True)
class TreesAlike:
    """So many active ``trees`` of one kind, branching and size; the average length of their leaves' texts."""

    kind: TreeKind
    k: int
    leaves: int
    trees: int
    leaf_chars: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of one step and model have cost a tenant so far."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    cached_tokens: int = 0
    """Of the prompt tokens: those that the provider's cache knew."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The sizes of a forest."""

    sessions: int
    turns: int
    cells: int
    candidates: int
    candidate_chars: int
    """Of their statements and quotes as JSON, which is about what a model writes to say them."""
    text_chars: int
    """Of their sentences alone."""
    windows: int
    """What a new extraction reads: windows, their cells, and the characters of those."""
    window_cells: int
    window_chars: int
    unembedded: int
    """Texts of cells, facts and candidates that have no vector of the model."""
    unembedded_chars: int


@dataclass(frozen=True, slots=True)
class Options:
    """What a rebuild changes. Rules that are not named stay as the forest has them."""

    rules: Rules = field(default_factory=dict)
    extract: bool = False
    """Read every cell again, with today's prompt and model; answers that were paid for before are used."""
    summaries: bool = False
    """Write every summary again, with today's prompt and model; otherwise equal inputs have their summary already."""


class TextKind(StrEnum):
    """Whose texts have vectors of their own."""

    CELL = "cell"
    CANDIDATE = "candidate"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A node's summary, whether a model wrote it, and its children under the new model."""

    node_id: NodeId
    version: int
    text: str
    from_model: bool
    children: tuple[ChildText, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The work and cost of a rebuild, estimated from the sizes of the forest: at most so many calls."""

    sessions: int
    turns: int
    cells: int
    cells_to_extract: int
    extraction_calls: int
    """All windows: an answer that was paid for before is used, and repairs come on top."""
    facts_to_place: int
    """Candidates that the reducer attaches to facts; with a new extraction, as many as there are now."""
    summaries: int
    summary_calls: int
    summaries_reused: int
    """Of trees that stay as they are."""
    texts_to_embed: int
    embedding_calls: int
    """About: texts are sent in batches, whose sizes depend on how work comes in."""
    prompt_tokens: int
    cached_tokens: int | None
    """Of the prompt tokens: what the provider's cache will know if it knows as large a share as of the tenant's calls
    so far, by step and model. None where there were none of a step that will be called."""
    completion_tokens: int
    embedding_tokens: int
    cost_usd: float | None
    """None when the price of one of the models is unknown."""

    def numbers(self) -> dict[str, str | int]:
        """As a task's progress; dollars in millionths. What is unknown is -1."""
        shown: dict[str, str | int] = asdict(self)
        del shown["cost_usd"]
        return shown | {
            "cached_tokens": -1 if self.cached_tokens is None else self.cached_tokens,
            "cost_microusd": -1 if self.cost_usd is None else round(self.cost_usd * 1e6),
        }


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
