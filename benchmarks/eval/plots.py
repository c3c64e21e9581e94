"""Pictures of a run: what a method finds against what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.eval.baseline_rows import shown
from benchmarks.eval.tables import PASS_1
from benchmarks.eval.variants import MEMFOREST, is_variant

BUDGETS = ((500, "share_500"), (2_000, "share_2000"))
LATENCY, TOKENS = "query_ms_p50", "context_tokens"
INCHES = (7.5, 4.5)
DPI = 110


class Kind(StrEnum):
    """What a method is; each kind is drawn alike."""

    OURS = "memforest"
    VARIANT = "variants of memforest"
    BASELINE = "baselines"


_COLORS = {Kind.OURS: "#c1121f", Kind.VARIANT: "#f4a261", Kind.BASELINE: "#33658a"}
_SHAPES = "osv^D<>PX"


@dataclass(frozen=True, slots=True)
class Line:
    """What one method reaches at one or more costs: (cost, percent), cheapest first."""

    name: str
    kind: Kind
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    """What the cost is, with its unit."""
    y: str
    lines: Sequence[Line]
    log: bool = False
    """Whether costs differ by magnitudes."""


def drawn(
    rows: Sequence[Mapping[str, object]], answers: Sequence[Mapping[str, object]], directory: Path
) -> list[tuple[str, str]]:
    """Draw a run's rows, and those of its answers if there are any; (title, file name) of each picture."""
    latency = "query, p50 ms"
    pictures = {
        "recall_latency": [
            Panel(f"Within {budget:,} tokens", latency, "share %", _lines(rows, (LATENCY, name)), log=True)
            for budget, name in BUDGETS
        ],
        "recall_tokens": [
            Panel("Within a budget", "tokens of delivered text", "share %", _lines(rows, *BUDGETS)),
            Panel("First 10 items", "tokens of delivered text", "recall@10 %", _lines(rows, (TOKENS, "recall_at_10"))),
        ],
    }
    costs = {one["method"]: one for one in rows}
    answered = [{**costs[one["method"]], **one} for one in answers if one["method"] in costs and PASS_1 in one]
    if answered:
        pictures["accuracy"] = [
            Panel("Answers", latency, "accuracy %", _lines(answered, (LATENCY, PASS_1)), log=True),
            Panel("Answers", "tokens of evidence", "accuracy %", _lines(answered, (TOKENS, PASS_1))),
        ]
    for name, panels in pictures.items():
        draw(directory / f"{name}.png", panels)
    return [(name.replace("_", " against "), f"{name}.png") for name in pictures]


def _lines(rows: Sequence[Mapping[str, object]], *points: tuple[float | str, str]) -> list[Line]:
    """A line for each row through (cost, value); a cost is a number or the name of a figure.

    A row that has no such figure, because it was not timed, has no line.
    """
    return [
        Line(
            str(one["method"]),
            _kind(str(one["method"])),
            tuple((_figure(one[x] if isinstance(x, str) else x), _figure(one[y])) for x, y in points),
        )
        for one in rows
        if all(one[x] is not None for x, _ in points if isinstance(x, str))
    ]


def _kind(method: str) -> Kind:
    if method == MEMFOREST:
        return Kind.OURS
    return Kind.VARIANT if is_variant(method) else Kind.BASELINE


def _figure(cell: object) -> float:
    return float(str(cell))


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Write the panels side by side as one PNG."""
    width, height = INCHES
    figure = Figure(figsize=(width * len(panels), height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    for number, panel in enumerate(panels, 1):
        _panel(figure.add_subplot(1, len(panels), number), panel)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    axes.grid(visible=True, alpha=0.3)
    if panel.log:
        axes.set_xscale("log")
    for kind in Kind:
        lines = [line for line in panel.lines if line.kind is kind]
        for position, line in enumerate(lines):
            # There are dozens of variants: their names are in the tables.
            shared = kind is Kind.VARIANT
            axes.plot(
                [x for x, _ in line.points],
                [y for _, y in line.points],
                color=_COLORS[kind],
                marker="." if shared else "*" if kind is Kind.OURS else _SHAPES[position % len(_SHAPES)],
                markersize=14 if kind is Kind.OURS else 7,
                linewidth=1,
                alpha=0.8,
                label=(kind.value if position == 0 else None) if shared else shown(line.name),
            )
    if panel.lines:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
