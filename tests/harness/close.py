"""Numbers that are the same up to the last bits of a float32."""

from __future__ import annotations

import math

FLOAT32 = 1e-6
"""Relative. The embedded engine sums BM25 in float32, in the order of its segments: the last bits may differ between two
indexes of the same points, and rounding makes such a bit a whole digit now and then."""


class Close(float):
    """Equal to a number that differs by no more than sums in float32 do; compares within tuples and lists."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float)) and math.isclose(self, other, rel_tol=FLOAT32, abs_tol=FLOAT32)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]
