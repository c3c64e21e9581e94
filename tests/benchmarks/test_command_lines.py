"""The benchmarks through their command line, at small sizes: what they promise holds and the report can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from benchmarks.refresh import longest_chain
from memforest_core.domain.ids import NodeId
from tests.harness.processes import environment

ROOT = Path(__file__).parents[2]


def reported(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that a benchmark prints last, which must keep its bounds; its progress must be on stderr."""
    code, answer = ended(module, *arguments)
    assert code == 0, answer
    return answer


def ended(module: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, 1 where a bound is not kept, and the JSON object."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--json", "--seed", "3", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr and done.stdout, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["seed"] == 3
    assert {"cores", "python", "platform", "load"} <= answer["machine"].keys()
    return done.returncode, dict(answer)


@pytest.fixture(scope="module")
def inserted() -> list[dict[str, Any]]:
    rows = reported("benchmarks.tree_insert", "--leaves", "100", "1000", "--batches", "3")["rows"]
    return list(rows)


@pytest.fixture(scope="module")
def refreshed() -> list[dict[str, Any]]:
    rows = reported("benchmarks.refresh", "--facts", "50", "150", "--real-eager", "100")["rows"]
    return list(rows)


@pytest.fixture(scope="module")
def recalled() -> list[dict[str, Any]]:
    rows = reported(
        "benchmarks.recall_latency",
        "--sizes",
        "60,300",
        "--forests",
        "2",
        "--questions",
        "4",
        "--callers",
        "3",
        "--most",
        "99",
    )
    return list(rows["rows"])


def test_each_size_of_tree_has_its_row(inserted: list[dict[str, Any]]) -> None:
    assert [row["leaves"] for row in inserted] == [100, 1000]
    for row in inserted:
        assert row["median_ms"] > row["tree_median_ms"] > 0
        assert row["batches"] == 3


def test_a_batch_takes_as_many_statements_into_a_large_tree_as_into_a_small_one(
    inserted: list[dict[str, Any]],
) -> None:
    small, large = inserted
    assert small["statements"] == large["statements"] > 0


def test_coalesced_refresh_asks_less_than_once_per_fact_and_eager_refresh_more(
    refreshed: list[dict[str, Any]],
) -> None:
    assert [row["facts"] for row in refreshed] == [50, 150]
    for row in refreshed:
        assert 0 < row["coalesced_calls"] < row["facts"]
        assert row["coalesced_calls"] < row["eager_calls"]
        assert row["coalesced_calls"] + row["coalesced_joined"] + row["coalesced_passed"] == row["internal_nodes"]


def test_no_more_calls_wait_for_each_other_than_the_tree_is_high(refreshed: list[dict[str, Any]]) -> None:
    for row in refreshed:
        assert 0 < row["critical_path_calls"] <= row["height"]


def test_the_report_says_which_counts_come_from_a_tree_in_memory(refreshed: list[dict[str, Any]]) -> None:
    """Given eager refresh on Postgres up to 100 facts, when 150 are asked for, then the row says where its count is from."""
    assert [row["eager_source"] for row in refreshed] == ["postgres", "memory"]


def test_a_chain_of_calls_goes_through_nodes_that_needed_none() -> None:
    """Given root <- joined <- asked, and a sibling that asked, then the longest chain is the root's and one below."""
    root, joined, asked, sibling = (NodeId(UUID(int=number)) for number in range(4))
    upwards = [(asked, joined), (joined, root), (sibling, root), (root, None)]
    assert longest_chain({root, asked, sibling}, upwards) == 2
    assert longest_chain({sibling, asked}, upwards) == 1
    assert longest_chain(set(), upwards) == 0


def test_each_size_of_memory_has_its_recall_latency(recalled: list[dict[str, Any]]) -> None:
    assert [(row["facts"], row["forests"]) for row in recalled] == [(60, 1), (300, 1), (200, 2)]
    for row in recalled:
        assert 0 < row["p50_ms"] <= row["p95_ms"]
        assert row["round_trips"] >= 2
        assert row["n"] == 4
        assert {"places", "search", "load", "browse", "score", "resolve", "rest"} <= row["parts_ms"].keys()
        assert sum(row["parts_ms"].values()) == pytest.approx(row["mean_ms"], abs=0.1)
        assert (row["at_once"]["callers"], row["at_once"]["n"]) == (3, 38)
        assert row["at_once"]["per_second"] > 0
        several = row["in_processes"]
        assert (several["processes"], several["callers"], several["n"]) == (2, 2, 84)
        assert several["per_second"] > 0
        assert row["process_cold"]["first_ms"] > 0
        assert row["graphs_s"] == 0.0, "memories this small have no graphs"
    assert recalled[-1]["forests_cold"]["n"] == 40


def test_deleting_a_session_touches_its_own_trees_however_large_the_forest() -> None:
    rows = reported("benchmarks.delete", "--sizes", "3,9", "--deleted", "1", "--latency", "0", "--most", "99")["rows"]
    assert [(row["sessions"], row["n"], row["facts"]) for row in rows] == [(3, 1, 20), (9, 1, 20)]
    for row in rows:
        assert row["median_ms"] > 0
        assert 10 < row["nodes_touched"] < 200
        assert 0 < row["llm_calls"] < row["nodes_touched"]


def test_one_sessions_wait_is_told_in_parts() -> None:
    """Given a session of two windows, then both are read at once, and its parts come to the whole."""
    options = ("--cells", "34", "--runs", "1", "--latency", "0.3", "--slack", "60")
    (row,) = reported("benchmarks.one_session", *options)["rows"]
    assert (row["cells"], row["n"], row["calls"], row["calls_in_sequence"]) == (34, 1, 2, 1)
    parts = ("accepting_s", "to_call_s", "calling_s", "extracting_s", "reducing_s", "noticing_s")
    assert sum(row[part] for part in parts) == pytest.approx(row["p50_s"], abs=0.01)


def test_throughput_is_measured_to_the_last_fact_with_either_index() -> None:
    rows = reported("benchmarks.throughput", "--sessions", "2", "--processes", "1", "--least", "0")["rows"]
    assert [row["index"] for row in rows] == ["server", "owned"]
    for row in rows:
        assert (row["processes"], row["sessions"], row["cells"]) == (1, 2, 40)
        assert row["facts_a_cell"] == pytest.approx(0.84, abs=0.1)
        assert row["cells_a_second"] > 0 and row["model_calls"] >= 2


def test_what_a_cell_costs_is_measured_with_a_model_over_http() -> None:
    """Given two sessions of twenty turns and a model server, then their windows were read by it."""
    (row,) = reported("benchmarks.write_path", "--owners", "1", "--sessions", "2", "--model")["rows"]
    assert (row["turns"], row["cells"]) == (40, 20)
    assert row["model_calls"] >= 2
    assert row["python_ms_a_cell"] > 0 < row["statements_a_cell"]


def test_a_look_for_whose_turn_it_is_names_no_more_tenants_than_a_worker_tries() -> None:
    rows = reported("benchmarks.whose_turn", "--tenants", "3", "30", "--looks", "10", "--most", "99")["rows"]
    answered = [(row["tenants"], row["look"], row["answered"]) for row in rows]
    assert answered == [(3, "all", 3), (3, "next", 3), (30, "all", 30), (30, "next", 4)]
    assert all(row["p50_ms"] > 0 for row in rows)


def test_a_quiet_period_that_grows_saves_calls_and_keeps_to_the_staleness() -> None:
    rows = reported("benchmarks.quiet", "--leaves", "500", "--gaps", "5", "--sessions", "20")["rows"]
    assert [row["configuration"] for row in rows] == ["default", "paper"]
    for row in rows:
        assert row["grown_calls"] < row["fixed_calls"]
        assert row["fixed_stale_s"] < row["grown_stale_s"] <= 30.0


def test_the_size_of_worker_and_node_is_told_in_steps() -> None:
    """How large they are depends on the processor; a row that is not within its bounds ends the benchmark with 1."""
    code, told = ended("benchmarks.memory", "--only", "steps", "--steps", "8", "--processes", "2")
    rows = told["rows"]
    assert [row["case"] for row in rows] == [
        "worker with litellm",
        "workers with litellm, each",
        "embedded node with litellm",
    ]
    # They share what their parent imported.
    assert rows[1]["peak_mb"] < 0.9 * rows[0]["peak_mb"]
    for row in rows:
        assert len(row["steps_mb"]) == 1 and 50 < row["peak_mb"] < 2 * row["most_mb"]
        assert row["within"] is (row["peak_mb"] <= row["most_mb"])
    assert code == (0 if all(row["within"] for row in rows) else 1)


def test_a_short_soak_loses_nothing_and_leaves_nothing() -> None:
    """Given callers that do everything at random while processes are killed, then the model in memory was right."""
    options = ("--minutes", "0.2", "--owners", "3", "--kill-every", "4", "--rate", "4")
    (row,) = reported("benchmarks.soak", *options)["rows"]
    assert row["findings"] == []
    assert sum(row["actions"].values()) > 10
    assert sum(row["kills"].values()) >= 2
    assert row["words_known"] > 0
    assert row["asked"] > 0


def test_merged_forests_hold_what_was_written_into_one() -> None:
    """Given two small forests, then merging them asks the model less than writing them, and finds as many facts."""
    sizes = ("--forests", "2", "--sessions", "2", "--workers", "1")
    answer = reported("benchmarks.merge", *sizes, "--latency", "0.02", "--least", "0", "--trees", "1")
    assert [row["n"] for row in answer["rows"]] == [1, 2]
    for row in answer["rows"]:
        assert row["facts"] == row["sequential_facts"] > 0
        assert row["llm_calls"] < row["sequential_llm_calls"]
    assert answer["rows"][0]["llm_calls"] == 0
    assert answer["measured"]["reached"] == {"speedup": True, "facts": True, "trees": True}


def test_a_context_is_one_recall_and_three_statements_at_every_size() -> None:
    """The profile is kept, the session short, no day new; a chat asks a model now and then."""
    told = reported("benchmarks.context", "--sizes", "60,300", "--contexts", "4", "--turns", "80")

    assert [(made["facts"], made["extra_statements"]) for made in told["rows"]] == [(60, 3), (300, 3)]
    assert all(0 < made["tokens"] <= 2_000 and made["p50_ms"] > 0 for made in told["rows"])
    calls = told["measured"]["chat"]["calls"]
    assert set(calls) <= {"profile", "today", "week", "title", "window", "other"}
    assert sum(calls.get(kind, 0) for kind in ("profile", "today", "week", "title")) > 0


def test_tokens_of_all_steps_add_up() -> None:
    """One short conversation: each step's prompt, schema and answer are counted, and their sum is set beside the talk."""
    told = reported("benchmarks.tokens", "--mode", "once", "--conversations", "1")
    *steps, whole = told["rows"]

    assert {row["step"] for row in steps} >= {"extraction"}
    assert whole["step"] == "all"
    for name in ("calls", "prompt", "schema", "completion", "cached"):
        assert whole[name] == sum(row[name] for row in steps)
    counted = whole["prompt"] + whole["schema"] + whole["completion"]
    assert whole["times_talk"] == pytest.approx(counted / told["measured"]["talk"], abs=0.01)
    assert all(row["prompt"] > 0 < row["completion"] for row in steps)


def scaled(*scenarios: str) -> dict[str, dict[str, Any]]:
    """Rows of the smallest sizes, twenty and two, by operation."""
    rows = reported("benchmarks.scale", "--scale", "0.00001", "--slack", "99", "--only", *scenarios)["rows"]
    for row in rows:
        assert row["n"] == row["measured_to"] == 20
        assert not row["extrapolated"]
        assert row["seconds"] > 0 and row["statements"] > 0 and row["resident_mb"] > 0
    return {row["operation"]: row for row in rows}


def test_scale_compares_each_operation_on_a_forest_with_a_tenth() -> None:
    assert list(scaled("one_forest")) == ["enqueue", "tree_insert", "refresh", "recall", "verify", "export"]


def test_scale_counts_what_ten_times_the_turns_send() -> None:
    appended = scaled("long_session")["append"]
    assert appended["statements"] > 5 * appended["tenth"]["statements"]


def test_partitioned_tables_hold_the_same_and_lock_more() -> None:
    """Given the same rows, plain and in four partitions, then only the latter must lock what a tenant does not have."""
    rows = reported(
        "benchmarks.scale.partitions", *("--tenants", "2", "--facts", "40", "--partitions", "4", "--rounds", "1")
    )["rows"]

    plain, hashed = rows
    assert (plain["layout"], hashed["layout"]) == ("plain", "hashed")
    assert hashed["relations"] == 4 * plain["relations"]
    assert hashed["locks"] > 2 * plain["locks"]
    for row in rows:
        assert row["delete_blocks"] > 0 and row["vacuum_blocks"] > 0 and row["index_mb"] > 0


def test_http_is_measured_beside_the_library() -> None:
    rows = reported(
        "benchmarks.http",
        "--calls",
        "3",
        "--turns",
        "20",
        "--seconds",
        "0.5",
        "--waiting",
        "5",
        "--wait",
        "3",
        "--processes",
        "1",
    )["rows"]
    measured = [row["measured"] for row in rows]

    assert measured == ["recall", "enqueue", "quota", "waiting_clients", "enqueues_a_second"]
    assert all(row["n"] > 0 for row in rows if "n" in row)
    assert rows[3]["rss_most_mb"] >= rows[3]["rss_before_mb"] > 0
