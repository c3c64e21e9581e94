"""Scenes: what 20 facts cost to place as a forest's scenes grow, and how facts are spread over scenes."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

import numpy as np

from benchmarks.eval.dataset import Conversation
from benchmarks.eval.locomo import load
from benchmarks.harness import Report, Row, made_fact, made_leaf, minute, parser, say
from memforest_core.domain.chat_messages import TurnInput
from memforest_core.domain.facts import Statement
from memforest_core.domain.ids import FactId, ForestId, SessionId, TreeId, tree_id
from memforest_core.domain.scopes import TreeKind
from memforest_core.domain.times import UNKNOWN_TIME
from memforest_core.index.vector_index import PointKind
from memforest_core.ingest.extract.offline.scenes import scene_of
from memforest_core.ingest.reduce.records import Member, ScopeDraft
from memforest_core.ingest.reduce.routing.scenes import SceneFact, SceneMap, SceneRules
from memforest_core.ingest.reduce.rows import ReduceRows
from memforest_core.models.calls import CallRecord, Embedded, Step, Vectors
from memforest_core.models.statement_vectors import StatementEmbedder, parts_of
from memforest_core.recall.calibration.service import built_in_sample
from memforest_core.settings import ReduceSettings
from memforest_core.store.trees import SceneSpan
from tests.harness.servers import session_servers
from tests.harness.stack import Stack, make_template, stack

SIZES = (200, 20_000)
BATCHES = 20
WARM_UP = 3
FACTS = 20
DIMENSION = 384
PLANTED_AT_ONCE = 2_000
MOST = 1.5
FACT_CHARS = 80
MEASURED = (
    "place_ms: median milliseconds of one reducing call for 20 new facts: the lookup in the index, the lock, routing,"
    " trees, commit. Both forests are in one database and take turns. Every planted scene holds one fact; vectors are"
    " random directions, so that each new fact founds a scene. ratio: the largest forest by the smallest. Shape:"
    " trees, singletons (scenes of one fact, which have no tree), share of facts that stand in trees of 3 to 60 leaves."
    " purity: share of the calibration sample's sentences whose scene is mostly of their domain; routing knows only"
    " the domains that the offline rules name"
)


class Directions:
    """Each text has a random direction of its own, always the same."""

    model = "benchmark-directions"
    dimension = DIMENSION

    def embed(self, texts: Sequence[str]) -> Embedded:
        """One row of unit length for each text."""
        return Embedded(
            np.stack([direction(text) for text in texts]), CallRecord(Step.EMBED, self.model, 0, 0, 0, 0, 0, "ok")
        )

    def embed_query(self, texts: Sequence[str]) -> Embedded:
        """As stored texts."""
        return self.embed(texts)


def direction(text: str) -> Vectors:
    """The direction of a text."""
    vector = np.random.default_rng(list(text.encode())).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


@dataclass(slots=True)
class Grown:
    """A forest with so many scenes, and what each batch took."""

    running: Stack
    owner: str
    scenes: int
    times: list[float]

    def plant(self) -> None:
        """Scenes of one fact each, as the reducer and the indexer leave them."""
        self.tell(-1)
        self.running.drive()
        rows = self.running.rows("SELECT forest_id FROM memforest.forest WHERE owner = :o", o=self.owner)
        forest = ForestId(rows[0].forest_id)
        for first in range(0, self.scenes, PLANTED_AT_ONCE):
            self._plant(forest, range(first, min(first + PLANTED_AT_ONCE, self.scenes)))
        self.index()

    def index(self) -> None:
        """Bring the index up to date: what it lacks is compared by itself."""
        while self.running.services.indexer.run_one(self.running.tenant, self.running.runtime.worker, tuple(PointKind)):
            pass

    def _plant(self, forest: ForestId, numbers: range) -> None:
        facts = [made_fact(forest, number, minute(number), FACT_CHARS) for number in numbers]
        leaves = [made_leaf(TreeId(UUID(int=0)), fact) for fact in facts]
        drafts, members = [], []
        for number, fact in zip(numbers, facts, strict=True):
            tree = tree_id(forest, TreeKind.SCENE, f"planted {number}")
            at = fact.statement.mentioned_at
            span = SceneSpan(direction(fact.statement.text), at, at)
            drafts.append(ScopeDraft(tree, TreeKind.SCENE, str(tree), "", 10, span=span))
            members.append(Member(tree, leaves[number - numbers.start].payload_id, SessionId(forest)))
        with ReduceRows.opened(self.running.services.engine, self.running.tenant) as rows:
            rows.lock_forest(forest)
            keys = {fact.id: leaf.key for fact, leaf in zip(facts, leaves, strict=True)}
            rows.canon.add_facts(forest, facts, keys, dict.fromkeys(keys, "bob"))
            rows.scopes.open_scopes(forest, drafts)
            rows.scopes.add_members(members, ())

    def tell(self, number: int) -> None:
        """A session of 20 facts, extracted and not yet placed."""
        turns: list[TurnInput] = [
            {
                "role": "user",
                "content": f"I paid {item} dollars for parcel {number * FACTS + item} of {self.owner}.",
            }
            for item in range(FACTS)
        ]
        self.running.memory.ingest(self.owner, f"batch {number}", turns)
        while self.running.runtime.extract():
            pass

    def place(self, number: int) -> None:
        """Place one batch, and keep what it took after the first ones."""
        self.tell(number)
        started = time.perf_counter()
        done = self.running.services.reduction.run_one(self.running.tenant)
        took = time.perf_counter() - started
        assert done.new_facts == FACTS, done
        if number >= WARM_UP:
            self.times.append(took * 1000)
        self.index()


def insertion(sizes: Sequence[int], batches: int) -> list[Row]:
    """What a batch takes in forests of these sizes."""
    with session_servers() as servers, tempfile.TemporaryDirectory(prefix="memforest-bench-") as place:
        make_template(servers)
        with stack(servers, Path(place), embedder=Directions()) as running:
            forests = [Grown(running, f"owner {size}", size, []) for size in sizes]
            for forest in forests:
                forest.plant()
                say(f"planted {forest.scenes:,} scenes")
            # What autovacuum would have done by the time a memory has grown.
            with running.owner_engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM (ANALYZE)")
            for number in range(batches + WARM_UP):
                for forest in forests:
                    forest.place(number)
            return [
                {"scenes": each.scenes, "n": len(each.times), "place_ms": round(median(each.times), 2)}
                for each in forests
            ]


def spread(path: Path) -> Iterator[Row]:
    """How the facts of each conversation of a file in LoCoMo's format stand in scenes."""
    with session_servers() as servers, tempfile.TemporaryDirectory(prefix="memforest-bench-") as place:
        make_template(servers)
        with stack(servers, Path(place)) as running:
            for one in load(path):
                yield told(running, one)


def told(running: Stack, one: Conversation) -> Row:
    """Tell one conversation, and count."""
    for session in one.sessions:
        at = session.started_at.isoformat()
        turns: list[Any] = [
            {"id": turn.id, "role": "user", "name": turn.speaker, "content": turn.text, "timestamp": at}
            for turn in session.turns
        ]
        running.memory.ingest(one.id, session.id, turns)
        running.drive()
    rows = running.rows(
        """SELECT r.state, r.domain, count(*) AS size FROM memforest.tree r JOIN memforest.forest f USING (forest_id)
             JOIN memforest.placement p USING (tree_id)
            WHERE f.owner = :o AND r.kind = 'scene' AND r.state <> 'merged' GROUP BY r.tree_id, r.state, r.domain""",
        o=one.id,
    )
    placed = running.rows(
        """SELECT count(DISTINCT p.payload_id) AS facts FROM memforest.placement p JOIN memforest.tree r USING (tree_id)
             JOIN memforest.forest f ON f.forest_id = r.forest_id
            WHERE f.owner = :o AND r.kind = 'scene' AND r.state = 'active' AND r.leaf_count BETWEEN 3 AND 60""",
        o=one.id,
    )[0].facts
    facts = running.rows(
        "SELECT count(*) AS n FROM memforest.fact x JOIN memforest.forest f USING (forest_id) WHERE f.owner = :o",
        o=one.id,
    )[0].n
    made: Row = {
        "conversation": one.id,
        "facts": facts,
        "trees": sum(row.state == "active" for row in rows),
        "waiting": sum(row.state == "candidate" for row in rows),
        "singletons": sum(row.size == 1 for row in rows),
        "full": sum(row.size >= ReduceSettings().scene_cap for row in rows),
        "share_3_60": round(placed / facts, 3),
    }
    say("  ".join(f"{name}={value}" for name, value in made.items()))
    return made


def purity(seed: int) -> Row:
    """How pure scenes are, by the labels of the calibration sample; its sentences come in random order."""
    from memforest_core.models.opening import open_embedder
    from memforest_core.settings import EmbeddingSettings

    labelled: dict[str, str] = {}
    for pair in built_in_sample():
        labelled |= {pair.a: pair.scene_a, pair.b: pair.scene_b}
    texts = sorted(text for text, label in labelled.items() if label)
    random.Random(seed).shuffle(texts)
    numbers = iter(range(len(texts)))
    scenes = SceneMap([], SceneRules(), lambda: TreeId(UUID(int=next(numbers))))
    inside: dict[TreeId, list[str]] = defaultdict(list)
    at = minute(0)
    said = [Statement(text, UNKNOWN_TIME, at, "", "", scene=scene_of(text, "")) for text in texts]
    routing = [each.routing_text for each in said]
    vectors = StatementEmbedder(open_embedder(EmbeddingSettings())).embed(routing, parts_of(said)).vectors
    for number, (statement, vector) in enumerate(zip(said, vectors, strict=True)):
        for scene in scenes.route(SceneFact(FactId(UUID(int=number)), vector, statement.domain, 0, 0)):
            inside[scene.id].append(labelled[statement.text].partition("/")[0])
    together = [Counter(labels) for labels in inside.values() if len(labels) > 1]
    most = sum(max(labels.values()) for labels in together)
    all_ = sum(labels.total() for labels in together)
    return {"sentences": len(texts), "scenes": len(inside), "purity": round(most / max(1, all_), 3)}


def main() -> None:
    """Run from the command line; exit code 1 when placing grows too much with the scenes."""
    options = parser(__doc__ or "")
    options.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")], default=SIZES)
    options.add_argument("--batches", type=int, default=BATCHES, metavar="N", help="of 20 facts (default: %(default)s)")
    options.add_argument("--path", type=Path, help="conversations in LoCoMo's format: how their facts are spread")
    asked = options.parse_args()
    report = Report(asked.seed, asked.json)
    rows = insertion(asked.sizes, asked.batches)
    ratio = float(str(rows[-1]["place_ms"])) / float(str(rows[0]["place_ms"]))
    rows.append(purity(asked.seed))
    rows += spread(asked.path) if asked.path is not None else []
    report.end(rows, {"what": MEASURED, "ratio": round(ratio, 2), "most": MOST, "warm_up": WARM_UP})
    sys.exit(0 if ratio <= MOST else 1)


if __name__ == "__main__":
    main()
