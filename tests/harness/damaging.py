"""Damages files of the embedded vector index, as a disk may."""

from __future__ import annotations

import random
from pathlib import Path

FLIPPED, BITS, ZEROED, CUT, GONE = HOW = ("flipped", "bits", "zeroed", "cut", "gone")


def files(index: Path) -> list[Path]:
    """The files of the shard in an index's directory that hold anything, in order."""
    [shard] = index.glob("memforest-*")
    return sorted(file for file in shard.rglob("*") if file.is_file() and file.stat().st_size)


def damage(file: Path, how: str, rng: random.Random) -> None:
    """Change the file in place: a twentieth of its bytes, three bits, its first page, its latter half, or all of it."""
    if how == GONE:
        file.unlink()
        return
    content = bytearray(file.read_bytes())
    used = [at for at, byte in enumerate(content) if byte] or [0]
    if how == FLIPPED:
        for at in rng.sample(used, max(1, len(used) // 20)):
            content[at] = rng.randrange(256)
    elif how == BITS:
        for at in rng.choices(used, k=3):
            content[at] ^= 1 << rng.randrange(8)
    elif how == ZEROED:
        content[:4096] = bytes(len(content[:4096]))
    else:
        del content[len(content) // 2 :]
    with file.open("r+b") as written:
        written.truncate(len(content))
        written.write(content)


def scramble(index: Path, ending: str, rng: random.Random) -> None:
    """Flip bytes of the one file of a shard whose path ends so."""
    [file] = [file for file in files(index) if str(file).endswith(ending)]
    damage(file, FLIPPED, rng)


VECTORS, TERMS, PAYLOAD = "dense/vectors/chunk_0.mmap", "terms/store/page_0.dat", "payload_storage/page_0.dat"
"""Ends of the paths of files that hold vectors, term weights and payload."""
