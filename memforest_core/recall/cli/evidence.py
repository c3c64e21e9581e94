"""An evidence item as terminal text: when and what, then its source and why it was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memforest_core.cli.toolkit.output import named, printable, shortened

if TYPE_CHECKING:
    from rich.text import Text

    from memforest_core.domain.evidence import Evidence, PathNode

TEXT_CHARS = 600
SUMMARY_CHARS = 70
SIGNALS = 6
"""Signals named, the strongest first."""
TREES = 3
"""Trees whose path is shown."""


def evidence_text(evidence: Evidence, number: int, *, several: bool = False) -> Text:
    """A numbered piece with its provenance; with whose it is, where there are those of ``several`` memories."""
    from rich.text import Text

    text = Text(f"{number:>3}. ")
    text.append(printable(evidence.time_label), style="cyan")
    text.append("  ")
    text.append(shortened(evidence.text, TEXT_CHARS))
    whose = [("memory", printable(evidence.whose))] if several and not evidence.source else []
    for label, value in [*whose, *details(evidence)]:
        text.append(f"\n     {label:<9} {value}", style="dim")
    return text


def details(evidence: Evidence) -> list[tuple[str, str]]:
    """(label, value) lines: source, found by, tree paths, neighbours."""
    turns = ", ".join(printable(turn) for turn in evidence.turn_ids)
    said_by = f" · said by {printable(evidence.speaker)}" if evidence.speaker else ""
    if evidence.source:
        return [
            ("source", f"{printable(evidence.source)} · point {printable(evidence.point_id)}"),
            ("found by", f"{signals(evidence)} · score {evidence.score:.2f}"),
        ]
    lines = [
        ("source", f"session {printable(evidence.session_id)} · turn {turns}{said_by}{_marks(evidence)}"),
        ("found by", f"{signals(evidence)} · score {evidence.score:.2f} · {evidence.freshness.value}"),
    ]
    lines += [("tree", path) for path in tree_paths(evidence.path)[:TREES]]
    for label, neighbours in (("before", evidence.predecessors), ("after", evidence.successors)):
        lines += [
            (label, f"{printable(near.time_label)}  {shortened(near.text, SUMMARY_CHARS)}") for near in neighbours
        ]
    return lines


def _marks(evidence: Evidence) -> str:
    """What was done to a piece since it was said."""
    marks = [f" · merged from {printable(evidence.origin)}"] if evidence.origin is not None else []
    marks += [f" · {name}" for name, yes in (("corrected", evidence.corrected), ("pinned", evidence.pinned)) if yes]
    return "".join(marks)


def signals(evidence: Evidence) -> str:
    """What added to the score, the strongest first."""
    ordered = sorted(evidence.signals.items(), key=lambda item: -item[1])
    return " + ".join(f"{name} {value:.2f}" for name, value in ordered[:SIGNALS] if value) or "nothing"


def tree_paths(path: tuple[PathNode, ...]) -> list[str]:
    """For each tree the nodes from its root down, each with the beginning of its text."""
    trees: dict[tuple[str, str], list[PathNode]] = {}
    for node in path:
        trees.setdefault((node.tree_kind.value, node.label), []).append(node)
    return [
        f"{kind} {named(label)}" + "".join(f" › {_step(node)}" for node in nodes)
        for (kind, label), nodes in trees.items()
    ]


def _step(node: PathNode) -> str:
    if node.level == 0:
        return "leaf"
    return f"“{shortened(node.summary, SUMMARY_CHARS)}”" if node.summary else f"level {node.level}"
