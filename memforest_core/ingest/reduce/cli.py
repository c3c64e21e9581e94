"""``memforest calibrate``: the thresholds of the embedding model in use, from a labelled sample, as settings."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memforest_core.cli.toolkit.options import JsonOption
from memforest_core.cli.toolkit.output import console, plain, plain_table, print_json, printable
from memforest_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memforest_core.ingest.reduce.calibrating import Calibrated, Figures, LabelledPair, Thresholds

VARIABLE = "MEMFOREST_REDUCE__"
REMARK = "# Thresholds by memforest calibrate, for the embedding model "


def calibrate(
    sample: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help='Pairs {"a", "b", "label": same | update | scene | other}; the ones that come along if not given.',
            show_default=False,
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the settings to this env file.", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Change these settings in a file that is there; its other lines stay.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Derive the thresholds for routing facts to scenes.

    They belong to an embedding model: run it when MEMFOREST_EMBEDDING__MODEL changes. Needs no service but the model.
    """
    from memforest_core.ingest.reduce.calibrating import calibrate as derived_from
    from memforest_core.models.model_opening import open_embedder
    from memforest_core.settings import OFFLINE, load_settings

    if write is not None and write.exists() and not force:
        raise InvalidInput(f"{write} is there already: add --force to change these settings in it.", code="file_exists")
    settings = load_settings()
    chat = settings.llm.extract.model or settings.llm.model
    result = derived_from(
        pairs_of(sample), open_embedder(settings.embedding), settings.reduce, labelled=chat != OFFLINE
    )
    if write is not None:
        write_settings(write, result)
    if as_json:
        print_json(document(result, write))
    else:
        _print(result, write)


def pairs_of(sample: Path | None) -> list[LabelledPair]:
    """The pairs of a file, or those that come along. Raises InvalidInput."""
    from memforest_core.ingest.reduce.calibrating import built_in_sample, parse_sample

    if sample is None:
        return built_in_sample()
    try:
        text = sample.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{sample} can't be read as UTF-8 text ({type(error).__name__}).", code="no_file") from None
    return parse_sample(text)


def variables(thresholds: Thresholds) -> dict[str, str]:
    """The environment variables of thresholds."""
    return {VARIABLE + name.upper(): f"{value:g}" for name, value in asdict(thresholds).items()}


def env_lines(lines: Sequence[str], result: Calibrated) -> list[str]:
    """The lines of an env file with the derived settings in it: in place of former ones, else at its end."""
    wanted = variables(result.derived.thresholds)

    def ours(line: str) -> bool:
        name = line.strip().removeprefix("export ").partition("=")[0].strip()
        return name in wanted or line.startswith(REMARK)

    remark = f"{REMARK}{printable(result.model)}: {sum(result.pairs.values())} pairs."
    block = [remark, *(f"{name}={value}" for name, value in wanted.items())]
    place = next((number for number, line in enumerate(lines) if ours(line)), len(lines))
    return [*lines[:place], *block, *(line for line in lines[place:] if not ours(line))]


def write_settings(path: Path, result: Calibrated) -> None:
    """Write the settings, whole or not at all. Raises InvalidInput when the file can't be read or written."""
    draft = path.with_name(path.name + ".new")
    try:
        before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        draft.write_text("\n".join(env_lines(before, result)) + "\n", encoding="utf-8")
        if path.exists():
            draft.chmod(path.stat().st_mode)
        os.replace(draft, path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} can't be written ({type(error).__name__}).", code="not_written") from None


def document(result: Calibrated, written: Path | None) -> dict[str, object]:
    """The result as one JSON object."""
    return {
        "model": result.model,
        "pairs": plain(result.pairs),
        "thresholds": plain(result.derived.thresholds),
        "in_force": plain(result.in_force),
        "artifact": plain(result.artifact),
        "figures": {
            "derived": plain(result.derived.figures),
            "in_force": plain(result.in_force_figures),
            "artifact": plain(result.artifact_figures),
        },
        "warnings": list(result.derived.warnings),
        "settings": variables(result.derived.thresholds),
        "written": None if written is None else str(written),
    }


def _print(result: Calibrated, written: Path | None) -> None:
    out = console()
    counts = ", ".join(f"{count} {label}" for label, count in result.pairs.items())
    out.print(f"{printable(result.model)}: {sum(result.pairs.values())} pairs ({counts})")
    compared = ("in force", "derived", "artifact")
    settings = plain_table("setting", *compared, right=compared)
    now, artifact = variables(result.in_force), variables(result.artifact)
    for name, value in variables(result.derived.thresholds).items():
        settings.add_row(name, now[name], value, artifact[name], style="bold" if value != now[name] else "")
    out.print(settings)
    figures = plain_table("on these pairs", *compared, right=compared)
    columns = [_shown(each) for each in (result.in_force_figures, result.derived.figures, result.artifact_figures)]
    for row in zip(*columns, strict=True):
        figures.add_row(row[0][0], *(value for _, value in row))
    out.print(figures)
    for warning in result.derived.warnings:
        out.print(warning, style="yellow")
    if written is not None:
        _print_changes(result, written)


def _shown(figures: Figures) -> list[tuple[str, str]]:
    return [
        ("one topic: assigned", f"{figures.scene_assigned:.1%}"),
        ("one topic: assigned, weakly included", f"{figures.scene_taken:.1%}"),
        ("strangers: assigned", f"{figures.other_assigned:.1%}"),
        ("strangers: assigned, weakly included", f"{figures.other_taken:.1%}"),
    ]


def _print_changes(result: Calibrated, written: Path) -> None:
    now = variables(result.in_force)
    changes = [
        f"{name}: {now[name]} → {value}"
        for name, value in variables(result.derived.thresholds).items()
        if value != now[name]
    ]
    console().print(f"Written to {written}: {'; '.join(changes) or 'nothing differs from what is in force'}.")
