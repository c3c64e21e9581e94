"""Tables of test cases as text."""

from __future__ import annotations

import re
from typing import Any


def cases(table: str) -> list[Any]:
    """The rows of a table for ``parametrize``: a line break or `` | `` parts rows, `` => `` their columns."""
    rows = [tuple(row.split(" => ")) for row in re.split(r" \| |\n", table.strip())]
    return [row if len(row) > 1 else row[0] for row in rows]
