"""``memforest calibrate``: the thresholds of the embedding model in use, from a labelled sample, as settings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from memforest_core.cli.toolkit.options import JsonOption, option
from memforest_core.cli.toolkit.output import console, plain_table, print_json, printable
from memforest_core.errors import InvalidInput

VARIABLE = "MEMFOREST_REDUCE__"
REMARK = "# Thresholds by memforest calibrate, for the embedding model "
_FIGURES = {
    "scene_assigned": "one topic: assigned",
    "scene_taken": "one topic: assigned, weakly included",
    "other_assigned": "strangers: assigned",
    "other_taken": "strangers: assigned, weakly included",
}


def calibrate(
    sample: Annotated[
        Path | None,
        option(
            'Pairs {"a", "b", "label": same | update | scene | other}; the ones that come along if not given.',
            metavar="FILE.jsonl",
        ),
    ] = None,
    write: Annotated[
        Path | None, option("Write the settings to this file of environment variables.", metavar="FILE")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Change these settings in an existing file. Its other lines stay.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the thresholds for routing facts to scenes.

    They belong to an embedding model: run it after you change MEMFOREST_EMBEDDING__MODEL. It needs only the model.
    """
    from memforest_core.ingest.reduce import calibrating
    from memforest_core.models.model_opening import open_embedder
    from memforest_core.settings import OFFLINE, load_settings

    if write is not None and write.exists() and not force:
        raise InvalidInput(f"{write} is there already: add --force to change these settings in it.", code="file_exists")
    settings = load_settings()
    embedder, chat = open_embedder(settings.embedding), settings.llm.extract.model or settings.llm.model
    pairs = calibrating.built_in_sample() if sample is None else calibrating.parse_sample(_text(sample))
    scored = calibrating.score(pairs, embedder, labelled=chat != OFFLINE)
    in_force = {name: getattr(settings.reduce, name) for name in calibrating.THRESHOLDS}
    derived = calibrating.derive(scored)
    compared = {"in_force": in_force, "derived": derived}
    figures = {name: calibrating.figures_at(scored, thresholds) for name, thresholds in compared.items()}
    counts, wanted = Counter(pair.label.value for pair in pairs), _variables(derived)
    warnings = calibrating.warnings(figures["derived"])
    if write is not None:
        _write(write, wanted, f"{REMARK}{printable(embedder.model)}: {len(pairs)} pairs.")
    if as_json:
        result = {"model": embedder.model, "pairs": dict(counts), "thresholds": derived, "in_force": in_force}
        written = None if write is None else str(write)
        print_json({**result, "figures": figures, "warnings": warnings, "settings": wanted, "written": written})
        return
    out, now = console(), _variables(in_force)
    of_each = ", ".join(f"{count} {label}" for label, count in counts.items())
    out.print(f"{printable(embedder.model)}: {len(pairs)} pairs ({of_each})")
    columns = ("in force", "derived")
    table = plain_table("setting", *columns, right=columns)
    for name, value in wanted.items():
        table.add_row(name, now[name], value, style="bold" if value != now[name] else "")
    out.print(table)
    table = plain_table("on these pairs", *columns, right=columns)
    for name, shown in _FIGURES.items():
        table.add_row(shown, *(f"{each[name]:.1%}" for each in figures.values()))
    out.print(table)
    for warning in warnings:
        out.print(warning, style="yellow")
    if write is not None:
        changes = [f"{name}: {now[name]} → {value}" for name, value in wanted.items() if value != now[name]]
        out.print(f"Written to {write}: {'; '.join(changes) or 'nothing differs from what is in force'}.")


def _text(sample: Path) -> str:
    try:
        return sample.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{sample} can't be read as UTF-8 text ({type(error).__name__}).", code="no_file") from None


def _variables(thresholds: Mapping[str, float]) -> dict[str, str]:
    return {VARIABLE + name.upper(): f"{value:g}" for name, value in thresholds.items()}


def _env_lines(lines: Sequence[str], wanted: Mapping[str, str], remark: str) -> list[str]:
    """The lines of an env file with these settings in it: in place of former ones, else at its end."""

    def ours(line: str) -> bool:
        name = line.strip().removeprefix("export ").partition("=")[0].strip()
        return name in wanted or line.startswith(REMARK)

    block = [remark, *(f"{name}={value}" for name, value in wanted.items())]
    place = next((number for number, line in enumerate(lines) if ours(line)), len(lines))
    return [*lines[:place], *block, *(line for line in lines[place:] if not ours(line))]


def _write(path: Path, wanted: Mapping[str, str], remark: str) -> None:
    """Write the settings, whole or not at all. Raises InvalidInput when the file can't be read or written."""
    draft = path.with_name(path.name + ".new")
    try:
        before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        draft.write_text("\n".join(_env_lines(before, wanted, remark)) + "\n", encoding="utf-8")
        if path.exists():
            draft.chmod(path.stat().st_mode)
        os.replace(draft, path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} can't be written ({type(error).__name__}).", code="not_written") from None
