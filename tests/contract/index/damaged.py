"""Opens, compares, uses and fills an index whose files were damaged, and reports what it met.

    damaged.py DIRECTORY

A process of its own, because damaged files may end it.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from memforest_core.errors import IndexUnavailable
from memforest_core.index.qdrant.edge_index import EdgeIndex
from memforest_core.index.vector_index import IndexFilter, IndexQuery, Point, SparseVector
from tests.contract.index.builders import ACME, ALICE, DIMENSION, MODEL, named, point, terms

MARK = "a mark"
LIMIT = 16 * 2**30
"""Bytes of address space: a process that needs more fails, and other processes of the machine do not suffer."""


def points(version: int = 1) -> list[Point]:
    """Points, each with a vector, a term and a session of its own."""
    rng = np.random.default_rng(7)
    return [
        point(
            named(f"row {number}"),
            version=version,
            dense=rng.normal(size=DIMENSION).astype(np.float32),
            sparse=terms(**{f"t{1000 + number}": 2.0, "t1": 0.5}),
            session_id=named(f"session {number % 5}"),
            time_start=float(number),
            time_end=float(number),
        )
        for number in range(120)
    ]


def scanned(index: EdgeIndex) -> set[str]:
    found, cursor = set[str](), None
    while True:
        page = index.scan(cursor, 50, ACME)
        found |= {str(each.id) for each in page.points}
        cursor = page.cursor
        if cursor is None:
            return found


def complete(index: EdgeIndex, version: int) -> bool:
    """Whether a comparison with the rows finds nothing."""
    wanted = points(version)
    return (
        scanned(index) == {str(each.id) for each in wanted}
        and index.versions([each.key for each in wanted]) == dict.fromkeys([each.id for each in wanted], version)
        and not index.differing(wanted)
    )


def answers(index: EdgeIndex) -> bool:
    """Whether each point is the best hit for its vector and for its term, within its session."""
    for each in points():
        assert each.session_id is not None
        mine = IndexFilter(ACME, ALICE, (each.kind,), session_ids=(each.session_id,))
        term = SparseVector(each.sparse.indices[-1:], (1.0,))
        for hits in index.search([IndexQuery(each.dense, mine, 1), IndexQuery(term, mine, 1)]):
            if hits.ids != [each.id]:
                return False
    return True


def met(call: Callable[[], object]) -> object:
    try:
        return call()
    except IndexUnavailable as error:
        return error.code


def main(directory: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    index = EdgeIndex(directory, MODEL, DIMENSION)
    index.prepare()
    report: dict[str, object] = {"mark": met(index.read_mark), "complete": met(lambda: complete(index, 1))}
    report["answers"] = met(lambda: answers(index))
    # What a worker does, until it has written everything: open again after a failure, and write.
    for _ in range(3):
        index.prepare()
        if report["complete"] is not True and report["mark"] == MARK:
            index.set_aside()
            report["mark"] = None
        if met(lambda: index.upsert(points(version=2))) is None and met(lambda: index.write_mark(MARK)) is None:
            break
    report |= {"filled": met(lambda: complete(index, 2)), "answers_then": met(lambda: answers(index))}
    report["one_more"] = met(lambda: index.upsert([replace(points()[0], id=named("one more"))]))
    index.close()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
