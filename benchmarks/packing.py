"""What packing the turns of a topic saves: ``python -m benchmarks.packing conversations.json`` prints JSON.

The files are in the format of LoCoMo. The first turns of all conversations, one after the other, are a topic of each
size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from benchmarks.eval import locomo
from memforest_core.store.packs import Text, compressed, packs_of, unpacked

SIZES = (2_000, 4_000, 10_000, 30_000, 100_000)


def said(files: Sequence[Path]) -> Iterator[Text]:
    """All turns, by session and place."""
    sessions = (one for file in files for talk in locomo.load(file) for one in talk.sessions)
    for number, session in enumerate(sessions):
        for place, turn in enumerate(session.turns):
            yield UUID(int=number), place, turn.text


def measured(turns: Sequence[Text], size: int) -> dict[str, object]:
    """A topic of at least so many bytes: its texts, its packs, and how long a pack takes in each direction."""
    some: list[Text] = []
    raw = 0
    for turn in turns:
        if raw >= size:
            break
        some.append(turn)
        raw += len(turn[2].encode())
    packs = [pack for pack, _ in packs_of(some)]
    began = time.perf_counter()
    made = [compressed(pack) for pack in packs]
    packed_s = time.perf_counter() - began
    found = [text for pack in made for text in unpacked(pack)]
    unpacked_s = time.perf_counter() - began - packed_s
    left = {turn[:2] for turn in some} - {turn[:2] for turn in found}
    after = sum(map(len, made)) + sum(len(turn[2].encode()) for turn in some if turn[:2] in left)
    assert sorted(found) == sorted(turn for pack in packs for turn in pack)
    return {
        "turns": len(some), "bytes_before": raw, "bytes_after": after, "saved": round(1 - after / raw, 3),
        "packs": len(packs), "pack_ms": round(1_000 * packed_s, 1), "unpack_ms": round(1_000 * unpacked_s, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    turns = list(said(parser.parse_args().files))
    print(json.dumps([measured(turns, size) for size in SIZES], indent=1))


if __name__ == "__main__":
    main()
