"""Instructions of an application's own in place of the built-in ones; what a model is shown and must answer stays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from memforest_core.domain.text import clean
from memforest_core.errors import InvalidSettings
from memforest_core.settings import PromptName

MAX_CHARS = 20_000
"""About 5,000 tokens, which are sent with each call."""
MAX_BYTES = 4 * MAX_CHARS
"""A character has at most four bytes in UTF-8."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Instructions that replace the built-in ones, by prompt; None leaves those."""

    extract: str | None = None
    summarize: str | None = None
    browse: str | None = None
    plan: str | None = None
    rewrite: str | None = None
    answer: str | None = None
    profile: str | None = None
    window: str | None = None
    calendar: str | None = None

    @property
    def replaced(self) -> tuple[str, ...]:
        """The names of those that are replaced."""
        return tuple(name for name in self.__slots__ if getattr(self, name) is not None)


BUILT_IN = Prompts()


def open_prompts(files: Mapping[PromptName, Path]) -> Prompts:
    """The files' instructions. Raises InvalidSettings for one that is missing, empty, too long or no UTF-8 text."""
    return Prompts(**{name: _read(name, path) for name, path in files.items()})


def instructions_with(built_in: str, own: str | None, frame: str) -> str:
    """The system message: the built-in one, or an application's own instructions and after them the ``frame``.

    A frame says what the user message contains, that all in it is data, and what the answer looks like. It comes last.
    """
    return built_in if own is None else f"{own}\n\n{frame}"


def named(model: str, system: str, own: str | None) -> str:
    """A model's name as part of cache keys, with a mark of the prompt where that is not the built-in one."""
    return model if own is None else f"{model} prompt:{hashlib.sha256(system.encode()).hexdigest()[:16]}"


def _read(name: str, path: Path) -> str:
    variable = f"MEMFOREST_PROMPTS__{name.upper()}"
    try:
        with path.open("rb") as source:
            raw = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidSettings(f"Set {variable} to a file: {path} can't be read ({error.strerror}).") from None
    try:
        text = "" if len(raw) > MAX_BYTES else clean(raw.decode("utf-8-sig")).strip()
    except UnicodeDecodeError:
        raise InvalidSettings(f"Encode {path} ({variable}) as UTF-8.") from None
    if not raw.strip():
        raise InvalidSettings(f"{path} ({variable}) is empty: write the instructions into it, or unset the variable.")
    if not text or len(text) > MAX_CHARS:
        raise InvalidSettings(f"Shorten {path} ({variable}): instructions have at most {MAX_CHARS:,} characters.")
    return text
