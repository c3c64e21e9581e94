"""Faults of a page for people with a screen reader, a keyboard or weak eyes, as axe-core 4.14.1 finds them.

tests/data/axe has axe.min.js of the npm package axe-core, unchanged, with its licences (MPL 2.0 and others).
"""

from __future__ import annotations

from pathlib import Path

from tests.harness.chromium import Tab

AXE = Path(__file__).parents[1] / "data" / "axe" / "axe.min.js"
GRAVE = ("serious", "critical")
_RUN = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
    .filter(fault => %s.includes(fault.impact))
    .flatMap(fault => fault.nodes.map(node => `${fault.id}: ${node.target} ${node.html.slice(0, 120)}`)))"""


def grave_faults(tab: Tab) -> list[str]:
    """The serious and critical faults of the page that a tab has open: rule, place and beginning of the element."""
    if not tab.run("typeof window.axe === 'object'"):
        tab.run(AXE.read_text(encoding="utf-8") + ";0")
    found: list[str] = tab.run(_RUN % list(GRAVE))
    return found
