"""Any sequence of sessions, deletions and merges leaves the same forest as ingesting only what was not deleted."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import pytest

from memforest_core.lifecycle.verify.service import open_verification
from tests.harness.sayings import said
from tests.harness.stack import Stack

ACTOR = "test"
SEEDS = tuple(int(seed) for seed in os.environ.get("MEMFOREST_TEST_SEQUENCES", "1,3").split(","))
STEPS = 14
OWNERS = ("hub", "left", "right")
LOCATIONS = ("Oslo", "Lima", "Cairo", "Quito", "Perth", "Turin", "Davis", "Kyoto")
THINGS = ("parrot", "kayak", "cello", "tortoise", "tent", "camera")
NOTHING = "Hm."
"""Says nothing that would be remembered, in the place of what was deleted."""
FIRST_DAY = 1_700_000_000
DAY = 86_400

# Ties in time are in the order in which they came, which a merge or a deletion may change.
LEAVES = """
    SELECT r.kind, coalesce(s.external_id, r.scope_key) AS scope, n.key_time, coalesce(c.text, f.text) AS text
      FROM memforest.node n
      JOIN memforest.tree r USING (tenant_id, tree_id)
      JOIN memforest.forest o USING (tenant_id, forest_id)
      LEFT JOIN memforest.session s ON s.tenant_id = r.tenant_id AND s.session_id = r.session_id
      LEFT JOIN memforest.cell c ON c.tenant_id = n.tenant_id AND c.cell_id = n.payload_id
      LEFT JOIN memforest.fact f ON f.tenant_id = n.tenant_id AND f.fact_id = n.payload_id
     WHERE n.level = 0 AND o.owner = :owner AND o.state = 'live'
       AND (r.kind = 'session' OR (r.kind = 'entity' AND r.scope_key = 'bob'))
     ORDER BY r.kind, scope, n.key_time, n.key_ordinal, text
"""
FACTS = """
    SELECT f.text, f.time_start, count(o.*) AS said FROM memforest.fact f
      JOIN memforest.forest w USING (tenant_id, forest_id)
      LEFT JOIN memforest.occurrence o USING (tenant_id, fact_id)
     WHERE w.owner = :owner AND w.state = 'live' GROUP BY f.fact_id, f.text, f.time_start ORDER BY 1, 2
"""


@dataclass(slots=True)
class Session:
    """What is left of a session: its words in order, None where they were deleted."""

    name: str
    day: int
    lines: list[str | None]

    def cells(self) -> list[str]:
        """The texts of its cells: two turns each, without what was deleted."""
        pairs = (self.lines[at : at + 2] for at in range(0, len(self.lines), 2))
        texts = ["\n".join(f"Bob: {line}" for line in pair if line is not None) for pair in pairs]
        return [text for text in texts if text]

    def turns(self, instead: str | None = None) -> list[dict[str, object]]:
        """As a caller sends it; with ``instead`` in the place of what was deleted."""
        made = said(*[line if line is not None else instead or "" for line in self.lines], start=self.day)
        return [turn | {"id": f"t{place}"} for place, turn in enumerate(made)]


@dataclass(slots=True)
class Model:
    """What was ingested for each owner and is not forgotten, in plain lists."""

    rng: random.Random
    reported: dict[str, list[Session]] = field(default_factory=dict)
    number: int = 0
    played: set[str] = field(default_factory=set)

    def talk(self) -> Session:
        """A new session of four turns; what is said may have been said before."""
        self.number += 1
        return Session(f"s-{self.number}", FIRST_DAY + self.number * DAY, [self._line() for _ in range(4)])

    def _line(self) -> str:
        if self.rng.random() < 0.5:
            return f"I moved to {self.rng.choice(LOCATIONS)} in May {self.rng.randint(2019, 2023)}."
        return f"I bought a red {self.rng.choice(THINGS)} in {self.rng.choice(LOCATIONS)}."

    def known(self) -> list[str]:
        """Owners who have a session."""
        return [owner for owner, sessions in self.reported.items() if sessions]


def play(pipeline: Stack, model: Model) -> None:
    """One random step on the forests, and the same in the model."""
    rng, known = model.rng, model.known()
    step = rng.choice(("talk", "talk", "talk", "session", "turn", "turn", "range", "merge"))
    if not known or step == "talk":
        owner, session = rng.choice(OWNERS), model.talk()
        pipeline.memory.client.enqueue(owner, session.name, session.turns())
        model.reported.setdefault(owner, []).append(session)
        return
    owner = rng.choice(known)
    session = rng.choice(model.reported[owner])
    forget = pipeline.memory.lifecycle.forget
    model.played.add(step)
    match step:
        case "session":
            forget(owner, session=session.name, actor=ACTOR)
            model.reported[owner].remove(session)
        case "turn":
            left = [place for place, line in enumerate(session.lines) if line is not None]
            gone = rng.sample(left, min(len(left), rng.randint(1, 2)))
            if gone:
                forget(owner, session=session.name, turns=[f"t{place}" for place in gone], actor=ACTOR)
            for place in gone:
                session.lines[place] = None
        case "range":
            forget(owner, since=session.day, until=session.day + DAY, actor=ACTOR)
            session.lines = [None] * len(session.lines)
        case _:
            others = [other for other in known if other != owner]
            if others:
                pipeline.memory.lifecycle.merge(others, owner, actor=ACTOR)
                for other in others:
                    model.reported[owner] += model.reported.pop(other)
    # Requested operations are carried out in this order; the work that follows may be concurrent.
    while any(not task.finished for task in pipeline.memory.lifecycle.operations(100)):
        pipeline.runtime.maintain()


def leaves(pipeline: Stack, owner: str, kind: str) -> list[tuple[object, ...]]:
    """The leaves of the trees of one kind in order: scope and text."""
    return [(row.scope, row.text) for row in pipeline.rows(LEAVES, owner=owner) if row.kind == kind]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sequence_leaves_what_was_not_deleted(pipeline: Stack, seed: int) -> None:
    """Given random steps with work under way between them, then every session's leaves are those of a plain model, and
    facts and the speaker's tree those of a forest that only got what is left; verify finds nothing."""
    model = Model(random.Random(seed))
    for _ in range(STEPS):
        play(pipeline, model)
        if model.rng.random() < 0.4:
            pipeline.drive()
    pipeline.drive()

    assert {"turn", "merge"} <= model.played
    for owner in model.known():
        reported = model.reported[owner]
        expected = sorted((one.name, number, text) for one in reported for number, text in enumerate(one.cells()))
        assert leaves(pipeline, owner, "session") == [(name, text) for name, _, text in expected]
        for one in model.reported[owner]:
            if one.cells():
                pipeline.memory.client.enqueue(f"{owner}-again", one.name, one.turns(instead=NOTHING))
    report = open_verification(pipeline.services.engine, pipeline.services.index, pipeline.services.settings).run(
        pipeline.tenant
    )
    assert {check.check: check.examples for check in report.checks if check.violations} == {}
    pipeline.drive()
    for owner in model.known():
        if any(one.cells() for one in model.reported[owner]):
            assert pipeline.rows(FACTS, owner=owner) == pipeline.rows(FACTS, owner=f"{owner}-again")
            assert leaves(pipeline, owner, "entity") == leaves(pipeline, f"{owner}-again", "entity")
