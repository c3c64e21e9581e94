"""The files of a file, a folder or a zip, each read as a stream and never written anywhere."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, cast

from memforest_core.errors import InvalidInput
from memforest_core.ingest.formats.file_items import Refused, Value
from memforest_core.ingest.formats.json_items import json_items

CHUNK_BYTES = 2**18
"""Read at once, at most."""
MAX_MEMBERS = 500_000
MAX_RATIO = 500
"""A member of a zip that grows to more than this many times its size, and beyond 64 MiB, is refused."""
MAX_CELL_CHARS = 2**26
"""Of a table."""
MAX_NESTED = 2
"""Zips inside of zips."""
_ZIP = b"PK\x03\x04"
_MEDIA = re.compile(
    r"\.(?:jpe?g|png|gif|webp|heic|mp4|mov|webm|mp3|m4a|ogg|opus|wav|pdf|tgs|srt|html?|css|js|md|DS_Store)$", re.I
)


@dataclass(frozen=True, slots=True)
class File:
    """One file: its path inside of the folder or zip, its size in bytes, and how it is opened."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]
    path: Path | None = None
    """Where it is when it is a file of its own, which sqlite needs."""
    archive: str = ""
    """The name of the zip or folder that it is in."""
    progress: Callable[[int], object] | None = None
    """Called with the number of bytes that were read."""

    @property
    def stem(self) -> str:
        """Its name without folder and ending."""
        return PurePosixPath(self.name).stem

    @property
    def folder(self) -> str:
        """The path of its folder, empty at the top."""
        parent = str(PurePosixPath(self.name).parent)
        return "" if parent == "." else parent

    def chunks(self) -> Iterator[bytes]:
        """Its bytes. Raises InvalidInput for a damaged zip."""
        try:
            with _whole(self.archive or self.name), closing(self.open()) as opened:
                while chunk := opened.read(CHUNK_BYTES):
                    if self.progress is not None:
                        self.progress(len(chunk))
                    yield chunk
        except OSError as error:
            raise InvalidInput(f"{self.name} can't be read ({error.strerror}).", code="unreadable_file") from None

    def head(self, size: int) -> bytes:
        """Its first bytes."""
        made = b""
        for chunk in self.chunks():
            made += chunk
            if len(made) >= size:
                break
        return made[:size]

    def values(self, under: str = "") -> Iterator[Value | Refused]:
        """Its JSON values: lines, the items of a list, or of the list at this path of its object ("chats.list")."""
        return json_items(self.chunks(), under.split())

    def lines(self) -> Iterator[str]:
        """Its lines of text, in UTF-8 or what its first bytes say. Raises InvalidInput for another encoding."""
        head = self.head(4)
        encoding = "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        rest = ""
        try:
            for chunk in self.chunks():
                *lines, rest = (rest + decoder.decode(chunk)).split("\n")
                yield from (line.removesuffix("\r") for line in lines)
            rest += decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            raise InvalidInput(f"Encode {self.name} as UTF-8.", code="unreadable_file") from None
        if rest:
            yield rest

    def rows(self) -> Iterator[dict[str, str]]:
        """The rows of a table whose first row names its columns, with the separator that this row has."""
        lines = self.lines()
        first = next(lines, "")
        mark = max(",;\t|", key=first.count)
        csv.field_size_limit(MAX_CELL_CHARS)
        table = csv.reader((line + "\n" for line in chain([first], lines)), delimiter=mark)
        try:
            names = next(table, [])
            for row in table:
                if any(row[len(names) :]):
                    raise self._no_row(table.line_num, "it has more cells than the first line")
                if row:
                    yield dict(zip(names, row, strict=False))
        except csv.Error as error:
            raise self._no_row(table.line_num, str(error)) from None

    def _no_row(self, line: int, why: str) -> InvalidInput:
        said = f"Line {line} of {self.name} is no row of its table ({why}): quote texts that have separators in them."
        return InvalidInput(said, code="unreadable_file")


@contextmanager
def opened(given: str) -> Iterator[Sequence[File]]:
    """The files of a path, sorted by name; of standard input for ``-``. Raises InvalidInput in one sentence for what
    can't be read, a damaged or encrypted zip, one that would grow beyond all bounds, or names outside of it."""
    if given == "-":
        with TemporaryFile() as held:
            yield [File("-", 0, lambda: cast(IO[bytes], _Pipe(held)))]
        return
    path = Path(given)
    try:
        if path.is_dir():
            yield _of_folder(path)
            return
        with path.open("rb") as source:
            if source.read(4) != _ZIP:
                yield [File(path.name, path.stat().st_size, lambda: path.open("rb"), path)]
                return
            with _whole(path.name):
                archive = zipfile.ZipFile(source)
                files = sorted(_of_zip(archive, path.name), key=lambda file: file.name)
            yield files
    except OSError as error:
        raise InvalidInput(f"{given} can't be read ({error.strerror}).", code="unreadable_file") from None


class _Pipe(io.RawIOBase):
    """Standard input from its beginning, however often: what has come is held in a file, the rest as it comes."""

    def __init__(self, held: IO[bytes]) -> None:
        self._held = held
        self._at = 0

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        self._held.seek(self._at)
        chunk = self._held.read(size)
        if not chunk:
            chunk = cast(BufferedIOBase, sys.stdin.buffer).read1(size)
            self._held.write(chunk)
        self._at += len(chunk)
        return chunk


def _of_folder(folder: Path) -> list[File]:
    """The regular files in a folder; links are not followed."""
    made: list[File] = []
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        if stat.S_ISREG(info.st_mode) and not _MEDIA.search(path.name):
            name = path.relative_to(folder).as_posix()
            made.append(File(name, info.st_size, lambda path=path: path.open("rb"), path, folder.name))  # type: ignore[misc]
    return made


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """One sentence for a zip that is damaged or packed in a way that Python can't read."""
    try:
        yield
    except NotImplementedError as error:
        raise InvalidInput(f"Unpack {name}, and give the folder ({error}).", code="unreadable_file") from None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        said = f"{name} is damaged or not whole ({error}): download it again."
        raise InvalidInput(said, code="unreadable_file") from None


def _of_zip(archive: zipfile.ZipFile, name: str, depth: int = 1) -> Iterator[File]:
    """The members of a zip, and of zips in it. Raises InvalidInput for one that is not safe to read."""
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise InvalidInput(f"{name} has more than {MAX_MEMBERS} files.", code="unsafe_zip")
    for info in infos:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise InvalidInput(f"{name} names a file outside of it ({info.filename!r:.80}).", code="unsafe_zip")
        if not info.filename or info.is_dir() or "__MACOSX" in path.parts or _MEDIA.search(path.name):
            continue
        if info.flag_bits & 1:
            raise InvalidInput(f"{name} is encrypted: unpack it, and give the folder.", code="unreadable_file")
        if info.file_size > max(2**26, MAX_RATIO * info.compress_size):
            raise InvalidInput(
                f"{info.filename!r:.80} of {name} would grow to {info.file_size:,} bytes: that is no export.",
                code="unsafe_zip",
            )
        if path.suffix.lower() == ".zip" and depth < MAX_NESTED:
            with closing(archive.open(info)) as inner:
                made = list(_of_zip(zipfile.ZipFile(inner), str(path), depth + 1))
            for file in made:
                yield File(
                    f"{path.with_suffix('')}/{file.name}", file.size, _nested(archive, info, file.name), None, name
                )
            continue
        yield File(str(path), info.file_size, partial(archive.open, info), None, name)


def _nested(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Callable[[], IO[bytes]]:
    """Opens a member of a zip in a zip."""
    return lambda: zipfile.ZipFile(archive.open(info)).open(name)
