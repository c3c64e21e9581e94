"""What a run writes down, a line for each question and method: a killed run goes on, and a report reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TextIO

from benchmarks.eval.measuring import Ranks

RECORDS = "records.jsonl"
RUN = "run.json"
"""What was measured; records go on only in a run that measures the same."""
RESULT = "result.json"
"""The finished run's rows and what was measured, as ``--json`` prints them."""


class WrongRun(Exception):
    """Records of another run, or not records at all; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Record:
    """One method's answer to one question. Shares are in [0, 1], times in milliseconds."""

    method: str
    """``memforest``, ``memforest:<variant>`` or a baseline such as ``bm25_turns``."""
    conversation: str
    question_id: str
    """Unique in the data set."""
    category: str
    """Such as ``temporal``; the data set's own name for it."""
    gold: tuple[str, ...]
    """Ids of the turns that hold the answer; none for a question that is locked."""
    share_500: float
    """Share of the gold turns' text that is in the best 500 tokens of delivered text: mean over the turns."""
    share_2000: float
    """The same for 2,000 tokens."""
    found_500: float
    """Share of the gold turns that count as found in the best 500 tokens: each all or not at all."""
    found_2000: float
    """The same for 2,000 tokens."""
    ranks: Ranks
    """Of the gold turns; times, values and speakers that are wrong for the question are in ``outdated_ranks``."""
    best_ranks: Ranks
    """Of the turns with the answer itself."""
    outdated_ranks: Ranks
    head: tuple[str, ...]
    """Ids of the turns that the first item quotes; hashes of them when the question is locked."""
    paraphrase_of: str
    context_tokens: int
    """Tokens of the delivered text of the first 10 items, headers included."""
    ms: float | None
    """Wall time of the query whose items are measured here (up to 200), its embedding included; None where a row is not
    timed, because results of earlier questions were cached."""
    k_ms: float | None = None
    """Wall time of a query for the configured number of items; None where a method has no such number."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """How many gold turns each stage lost, by ``losses.Loss``; only for the row ``memforest``, else empty."""
    degraded: tuple[str, ...] = ()
    """What the recall had to do without; empty when all parts were there."""
    confidence: float | None = None
    """How sure the method is that its evidence answers: the first item's score."""
    answerable: bool = True
    """False where nothing answers: only the confidence is a figure then."""

    @property
    def key(self) -> tuple[str, str]:
        """A run has each of these once."""
        return self.method, self.question_id


_SHAPE = {one.name for one in fields(Record)}
_TUPLES = ("gold", "ranks", "best_ranks", "outdated_ranks", "head", "degraded")


def written(record: Record) -> str:
    """The record as one line of JSON, with its line end."""
    return json.dumps(asdict(record), ensure_ascii=False) + "\n"


def parsed(line: str) -> Record:
    """The record of a line. Raises WrongRun."""
    try:
        raw: Any = json.loads(line)
    except ValueError:
        raise WrongRun(f"This line is no record: {line[:60]!r}.") from None
    if not isinstance(raw, dict) or not set(raw) >= _SHAPE:
        raise WrongRun("The records are of another version: give an empty directory with --out.")
    given: dict[str, Any] = {name: tuple(raw[name]) if name in _TUPLES else raw[name] for name in _SHAPE}
    return Record(**given)


def read_records(directory: Path) -> list[Record]:
    """The records of a run in the order of writing; none for a directory without. A torn last line is left out.

    Raises WrongRun for anything else that is no record.
    """
    path = directory / RECORDS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    # What follows the last line end was being written when the run ended.
    return [parsed(line) for line in lines[:-1] if line]


def read_run(directory: Path) -> dict[str, Any]:
    """What was measured, as given to ``RecordFile``. Raises WrongRun when there is none."""
    path = directory / RUN
    if not path.exists():
        raise WrongRun(f"{directory} holds no run: give the directory that was given with --out.")
    return dict(json.loads(path.read_text(encoding="utf-8")))


class RecordFile:
    """The records of a run, appended to a directory; use as a context.

    ``measured`` says what is measured: a run goes on only with records that were measured alike.
    """

    def __init__(
        self,
        directory: Path,
        measured: Mapping[str, object],
        *,
        resume: bool,
        repeated: Collection[str] = (),
        gold: bool = True,
    ) -> None:
        """Begin an empty file, or go on without the records of the ``repeated`` methods, which are measured again.

        Without ``gold`` records name no gold turns: figures do not need them, and a locked question's stay secret.
        Raises WrongRun when the records there belong to another run.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / RECORDS
        self._gold = gold
        described = json.loads(json.dumps(measured))
        stored: list[Record] = []
        if resume and self._path.exists():
            before = read_run(directory)
            if before != described:
                other = next(name for name in sorted(before | described) if before.get(name) != described.get(name))
                raise WrongRun(f"The records in {directory} have another {other}: leave out --resume to begin anew.")
            stored = read_records(directory)
        self._records = {record.key: record for record in stored if record.method not in repeated}
        (directory / RUN).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        # The file is rewritten, so that a torn last line does not stay in the middle.
        self._path.write_text("".join(map(written, self._records.values())), encoding="utf-8")
        self._file: TextIO = self._path.open("a", encoding="utf-8")

    def has(self, method: str, question_id: str) -> bool:
        """Whether it was recorded already."""
        return (method, question_id) in self._records

    def add(self, record: Record) -> None:
        """Write a record; it is in the file when this returns."""
        if not self._gold:
            hidden = (hashlib.sha256(f"{record.conversation}/{turn}".encode()).hexdigest() for turn in record.head)
            record = replace(record, gold=(), head=tuple(hidden))
        self._file.write(written(record))
        self._file.flush()
        self._records[record.key] = record

    def of(self, method: str, question_ids: Iterable[str]) -> list[Record]:
        """The records of a method, in the order of the questions; questions without a record are left out."""
        return [self._records[method, id_] for id_ in question_ids if (method, id_) in self._records]

    def end(self, result: Mapping[str, object]) -> None:
        """Write the rows that all records together give."""
        path = self._path.with_name(RESULT)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each method, in the order of writing."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.method, []).append(record)
    return grouped
