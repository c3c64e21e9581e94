"""How a piece of evidence looks in a terminal: when and what, then where it comes from and why it was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest_core.cli.output import printable, shortened

if TYPE_CHECKING:
    from rich.text import Text

    from memforest_core.domain.evidence import Evidence, PathNode

TEXT_CHARS = 600
SUMMARY_CHARS = 90
SIGNALS = 6
"""Signals named, the strongest first."""


def evidence_text(evidence: Evidence, number: int) -> Text:
    """A numbered piece with its provenance."""
    from rich.text import Text

    text = Text(f"{number:>3}. ")
    text.append(printable(evidence.time_label), style="cyan")
    text.append("  ")
    text.append(shortened(evidence.text, TEXT_CHARS))
    for label, value in details(evidence):
        text.append(f"\n     {label:<8}", style="dim")
        text.append(value, style="dim")
    return text


def details(evidence: Evidence) -> list[tuple[str, str]]:
    """(label, value) lines: source, found by, tree path, neighbours."""
    turns = ", ".join(printable(turn) for turn in evidence.turn_ids)
    said_by = f" · said by {printable(evidence.speaker)}" if evidence.speaker else ""
    lines = [
        ("source", f"session {printable(evidence.session_id)} · turn {turns}{said_by}"),
        ("found by", f"{signals(evidence)} · score {evidence.score:.2f} · {evidence.freshness.value}"),
    ]
    if evidence.path:
        lines.append(("tree", tree_path(evidence.path)))
    for label, neighbours in (("before", evidence.predecessors), ("after", evidence.successors)):
        lines += [
            (label, f"{printable(near.time_label)}  {shortened(near.text, SUMMARY_CHARS)}") for near in neighbours
        ]
    return lines


def signals(evidence: Evidence) -> str:
    """What added to the score, the strongest first."""
    ordered = sorted(evidence.signals.items(), key=lambda item: -item[1])
    return " + ".join(f"{name} {value:.2f}" for name, value in ordered[:SIGNALS] if value) or "nothing"


def tree_path(path: tuple[PathNode, ...]) -> str:
    """The nodes from the root down, each with the beginning of its text."""
    first = path[0]
    steps = [
        f"L{node.level} “{shortened(node.summary, SUMMARY_CHARS)}”" if node.summary and node.level else f"L{node.level}"
        for node in path
    ]
    return f"{first.tree_kind.value} {printable(first.label)} › " + " › ".join(steps)
