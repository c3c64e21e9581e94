"""A clean node's summary is fresh exactly when refresh would leave it as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

import pytest

from memforest_core.domain.ids import NodeId
from memforest_core.ingest.refresh.records import SummarySource
from memforest_core.ingest.refresh.summarizer import input_hash
from memforest_core.lifecycle.verify.rows.snapshots import stale

BUDGET = 800


@dataclass(frozen=True)
class SummaryState:
    """A row of a clean internal node."""

    node_id: NodeId
    version: int
    stored_version: int | None
    stored_source: SummarySource | None
    stored_model: str | None
    stored_hash: bytes | None
    stored_text: str | None
    children: tuple[str, ...]
    in_flight: bool


TEXTS = ("Bob lives in Davis.", "", "Bob bought a kayak.")


def state(source: SummarySource, text: str | None = None) -> SummaryState:
    """A node whose summary was just made from ``TEXTS``."""
    key = input_hash("some-model", BUDGET, TEXTS)
    return SummaryState(
        node_id=NodeId(UUID(int=1)),
        version=4,
        stored_version=4,
        stored_source=source,
        stored_model="some-model",
        stored_hash=b"degraded:" + key if source is SummarySource.DEGRADED else key,
        stored_text=text,
        children=TEXTS,
        in_flight=False,
    )


JOINED = state(SummarySource.JOINED, "Bob lives in Davis.\nBob bought a kayak.")


@pytest.mark.parametrize(
    "node",
    [
        JOINED,
        state(SummarySource.PASSED, "Bob lives in Davis."),
        state(SummarySource.MODEL),
        state(SummarySource.EXTRACTIVE),
        state(SummarySource.DEGRADED),
    ],
    ids=lambda node: node.stored_source.value,
)
def test_what_refresh_leaves_is_fresh(node: SummaryState) -> None:
    assert stale(node, BUDGET) is None


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (replace(JOINED, stored_version=None, stored_hash=None), "missing"),
        (replace(JOINED, stored_version=3), "version"),
        (replace(JOINED, version=5), "version"),
        (replace(JOINED, children=(*TEXTS, "Bob sold it.")), "inputs"),
        (replace(JOINED, children=TEXTS[::-1]), "inputs"),
        (replace(state(SummarySource.MODEL), stored_model="another"), "inputs"),
        (replace(state(SummarySource.DEGRADED), stored_source=SummarySource.MODEL), "inputs"),
        (replace(JOINED, stored_text="Bob lives in Miami."), "text"),
        (state(SummarySource.PASSED, ""), "text"),
    ],
)
def test_a_stale_summary_has_a_code(node: SummaryState, what: str) -> None:
    found = stale(node, BUDGET)
    assert found is not None
    assert (found.id, found.what) == (node.node_id, what)


def test_a_text_whose_change_is_on_its_way_is_no_violation() -> None:
    changed = replace(JOINED, children=("Bob lives in Miami.",))
    assert stale(changed, BUDGET) is not None
    assert stale(replace(changed, in_flight=True), BUDGET) is None


def test_another_budget_is_another_input() -> None:
    assert stale(state(SummarySource.MODEL), BUDGET + 1) is not None
