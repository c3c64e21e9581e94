"""Parts are switched off one at a time."""

from __future__ import annotations

from benchmarks.eval.variants import MEMFOREST, SETTINGS, variants
from memforest_core.settings import LlmSettings, RecallSettings


def test_each_part_is_a_row_and_every_setting_is_the_products() -> None:
    """Given the group of parts, when rows are made, then each differs from the default in one part that is on there."""
    rows = variants("parts", LlmSettings())
    assert [one.name for one in rows] == [MEMFOREST, *(f"{MEMFOREST}:no-{name}" for name in SETTINGS)]
    usual = RecallSettings()
    for changed in SETTINGS.values():
        weights = changed.get("weights", {})
        assert all(usual.weights[name] > 0 for name in weights)
        assert all(getattr(usual, name) > 0 for name in changed.keys() - {"weights"})
    assert [one.timed for one in rows] == [True] + [False] * (len(rows) - 1)
