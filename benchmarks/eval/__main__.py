"""``python -m benchmarks.eval``: how much of the evidence each method finds, on a data set that the caller has."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.eval import lives, locomo, longmemeval
from benchmarks.eval.answers import ANSWERS, answer_and_judge, tasks
from benchmarks.eval.baseline_rows import BASELINES
from benchmarks.eval.baselines import DEPTH
from benchmarks.eval.dataset import Dataset, WrongFile, fingerprint, limited
from benchmarks.eval.ingesting import Memory, remembered
from benchmarks.eval.judging import JUDGE
from benchmarks.eval.losses import loss_table
from benchmarks.eval.measuring import NAME
from benchmarks.eval.peer_rows import present
from benchmarks.eval.records import RecordFile, WrongRun
from benchmarks.eval.running import Run, UnknownMethod, chosen
from benchmarks.eval.summing import comparison, differences, row
from benchmarks.eval.tables import WrongTable
from benchmarks.eval.transform import transformed
from benchmarks.eval.variants import DEFAULT_MODE, GROUPS, MEMFOREST, is_variant
from benchmarks.harness import Report, Row, parser, say
from benchmarks.peers.systems import PeerUnavailable
from memforest_core.cli.toolkit.logs import configure_logs
from memforest_core.errors import InvalidSettings, MemForestError
from memforest_core.models.calls import Step
from memforest_core.settings import OFFLINE, Settings, load_settings

OWN = Path(__file__).parent / "data" / "own.json"
DOCUMENTS = OWN.with_name("documents.json")
LOCKED = "-locked"
"""Ends the names of the halves that give figures only."""
LIVES = {"lives": lives.LIVES, "talk": lives.TALK, "talk-languages": lives.TALK_LANGUAGES}
LIVES |= {"languages": lives.LANGUAGES} | {
    f"{name}{LOCKED}": path.with_suffix(".locked") for name, path in (*LIVES.items(), ("talk-fresh", lives.FRESH))
}
SHIPPED = {"own": OWN, "documents": DOCUMENTS, **LIVES}
"""Data sets whose file is part of this repository."""
MEASURED = (
    "share: percent of the text of a question's gold turns that is in the best 500 and 2,000 tokens of delivered text,"
    " headers included, all methods packed alike; recall: percent of the gold turns whose text (or a sentence of it of"
    " at least half its length) is there; recall_at_k, all_at_10, mrr and ndcg_10 by the turns that the first k items"
    " quote, which favours big items; means over questions. first, third: percent of questions with a turn that has the"
    " answer in the first item, in the first three; outdated_above: with a wrong turn before all of these, of the"
    " questions that have wrong ones; same_first: of the paraphrases, with the same turn in the first item; complete:"
    " with all gold turns found; auc: how often an answerable question has more confidence than one without an answer."
    " Each method orders up to 200 items. query_ms: the query"
    " that gives them, its embedding included; query_k_ms: one of memforest for the configured k, asked after it;"
    " neither of rows that differ in weights or trees."
    " memforest: the configured settings in embedding mode; memforest:no-<signal>: that weight is 0;"
    " ours: rows that need MemForest. comparison: with the foreign"
    " baseline that delivers the largest share; by_type: memforest minus each baseline, adds: minus each variant;"
    " paired differences in points with 95% percentile bootstrap intervals, 2,000 draws of questions, and of"
    " conversations."
    " losses: percent of the gold turns that each stage of memforest loses"
)


def options() -> argparse.ArgumentParser:
    """The command line."""
    made = parser("Measure evidence recall of MemForest and of baselines over the same texts.")
    made.add_argument("--dataset", choices=(*SHIPPED, "locomo", "longmemeval"), default="own", help="format")
    made.add_argument("--path", type=Path, help="file or directory; own, documents and the lives bring theirs")
    made.add_argument("--captions", action="store_true", help="LoCoMo: what a picture shows is part of its turn")
    made.add_argument("--transform", action="store_true", help="replace names and shift dates, by the seed")
    made.add_argument("--home", type=Path, help="keep the ingested memory here and find it here the next time")
    made.add_argument("--out", type=Path, help="write records.jsonl, run.json and result.json here")
    made.add_argument("--resume", action="store_true", help="go on with the records in --out")
    made.add_argument("--again", dest="repeated", default="", help="with --resume: rows to measure once more")
    made.add_argument("--methods", help="rows, with commas between them (default: all of --variants)")
    made.add_argument("--variants", choices=GROUPS, default="none", help="rows beside memforest itself (default: none)")
    made.add_argument("--answers", type=int, default=0, metavar="N", help="let a chat model answer N times and judge")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="ask in N processes: nothing is timed then")
    made.add_argument("--limit", type=int, help="questions of each conversation")
    made.add_argument("--conversations", type=int, help="how many conversations")
    return made


def load(arguments: argparse.Namespace) -> Dataset:
    """The data set that the command line names. Raises WrongFile."""
    if arguments.dataset in LIVES and arguments.path is not None:
        raise WrongFile(f"Leave out --path: {arguments.dataset} brings its own file.")
    if arguments.dataset in ("own", "documents"):
        data = locomo.load(arguments.path or SHIPPED[arguments.dataset])
    elif arguments.dataset in LIVES:
        path = LIVES[arguments.dataset]
        data = lives.load(path.with_suffix(".json"), path if arguments.dataset.endswith(LOCKED) else None)
    elif arguments.path is None:
        raise WrongFile(f"Give the file of {arguments.dataset} with --path: it is not part of this repository.")
    elif arguments.dataset == "locomo":
        data = locomo.load(arguments.path, captions=arguments.captions)
    else:
        data = longmemeval.load(arguments.path)
    return transformed(data, arguments.seed) if arguments.transform else data


def measured(arguments: argparse.Namespace, content: str, settings: Settings) -> dict[str, object]:
    """What a record depends on."""
    return {
        "dataset": arguments.dataset,
        "file": (arguments.path or SHIPPED[arguments.dataset]).name,
        "content": content,
        "captions": arguments.captions,
        "transform": arguments.seed if arguments.transform else None,
        "limit": arguments.limit,
        "conversations": arguments.conversations,
        "seed": arguments.seed,
        "jobs": arguments.jobs,
        "chat_model": settings.llm.model,
        "embedding_model": settings.embedding.model,
        "mode": DEFAULT_MODE,
        "items": DEPTH,
        "tokenizer": NAME,
        "recall": settings.recall.model_dump(mode="json"),
    }


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Ingest, ask, report.

    Raises WrongFile, WrongRun, WrongTable, UnknownMethod, PeerAway and what the memory raises.
    """
    locked = arguments.dataset.endswith(LOCKED)
    if arguments.answers and locked:
        raise WrongFile(
            "Leave out --answers: the locked half gives figures only, and answers would show its questions."
        )
    if arguments.answers and not answering_models(settings):
        raise InvalidSettings(
            "Set MEMFOREST_LLM__MODEL to a chat model for --answers: offline, nothing answers or judges."
        )
    report = Report(arguments.seed, arguments.json)
    named = chosen(settings, arguments.variants, arguments.methods)
    data = load(arguments)
    wanted = present(named)
    # Conversations are left out before ingestion, questions after it: another --limit finds the same memory.
    data = limited(data, arguments.conversations, None, arguments.seed)
    content = fingerprint(data)
    requested = limited(data, None, arguments.limit, arguments.seed)
    with ExitStack() as stack:
        out = arguments.out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memforest-eval-out-")))
        described = measured(arguments, content, settings)
        repeated = {name.strip() for name in arguments.repeated.split(",")}
        records = stack.enter_context(
            RecordFile(out, described, resume=arguments.resume, repeated=repeated, gold=not locked)
        )
        memory = stack.enter_context(remembered(data, settings, arguments.home))
        work = stack.enter_context(closing(Run.of(memory.memory.services, requested, wanted)))
        work.go(records, arguments.jobs)
        if arguments.answers:
            answered(work, arguments.answers, out / ANSWERS, resume=arguments.resume)
        rows, found = summed(requested, wanted, records, memory, arguments.seed)
        everything = {"what": MEASURED, **described, **found}
        records.end({"rows": rows, "seed": arguments.seed, "measured": everything})
        report.end(rows, everything)


def answering_models(settings: Settings) -> str | None:
    """The model that answers, when there is one and one that judges."""
    llm = settings.llm
    names = [step.model or llm.model for step in (llm.answer, llm.profile)]
    return None if OFFLINE in names else names[0]


def answered(work: Run, samples: int, table: Path, *, resume: bool) -> None:
    """Let the chat model answer from what each method delivered, and judge; a table of an earlier run goes on."""
    services = work.services
    services.check_models([Step.ANSWER, JUDGE])
    if not resume:
        table.unlink(missing_ok=True)
    model = answering_models(services.settings) or OFFLINE
    calls = services.settings.llm.answer.concurrency or services.settings.llm.concurrency
    answer_and_judge(tasks(work.methods, work.data, model), services.chat, samples, calls, table)


def summed(
    data: Dataset, wanted: Sequence[str], records: RecordFile, memory: Memory, seed: int
) -> tuple[list[Row], dict[str, object]]:
    """A row for each method, and what they say about each other."""
    requested = [question for one in data for question in one.questions]
    measuring = sum(question.measures_recall for question in requested)
    by_name = {name: records.of(name, [question.id for question in requested]) for name in wanted}
    rows = [row(name, found, memory.ingest_s) for name, found in by_name.items()]
    ours = by_name.get(MEMFOREST, [])
    flat = {name: found for name, found in by_name.items() if name in BASELINES}
    return rows, {
        "questions": measuring,
        "left_out": len(requested) - measuring,
        "turns": memory.turns,
        "ingest_s": memory.ingest_s,
        "ingest_kept": memory.stored,
        "comparison": comparison(ours, flat),
        "by_type": {name: differences(ours, found, seed) for name, found in flat.items()},
        "adds": {name: differences(ours, found, seed) for name, found in by_name.items() if is_variant(name)},
        "losses": loss_table([record for record in ours if record.answerable]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 2, with one sentence, for what the caller can put right."""
    made = options()
    arguments = made.parse_args(argv)
    if arguments.resume and arguments.out is None:
        made.error("Give with --out the directory whose records --resume goes on with.")
    if arguments.answers and arguments.out is None:
        made.error("Give with --out the directory for the table of --answers.")
    if arguments.answers < 0:
        made.error("Set --answers to 1 or more.")
    for name in ("limit", "conversations", "jobs"):
        given = getattr(arguments, name)
        if given is not None and given < 1:
            made.error(f"Set --{name} to 1 or more.")
    # On stderr; a node that starts and stops says so at a lower level.
    configure_logs(logging.WARNING)
    try:
        run(arguments, load_settings())
    except (WrongFile, WrongRun, WrongTable, UnknownMethod, PeerUnavailable, MemForestError) as error:
        say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
