"""Reading a rendered window back, as a model does."""

from __future__ import annotations

import json
from datetime import datetime

from memforest_core.domain.turns import Role
from memforest_core.domain.windows import Window, WindowTurn


def parse_window(message: str) -> Window:
    """The window that ``render_window`` wrote. Raises ValueError on anything else."""
    document = json.loads(message)

    def turns(key: str) -> tuple[WindowTurn, ...]:
        return tuple(
            WindowTurn(
                number=raw["number"],
                cell=raw["cell"],
                ordinal=raw["ordinal"],
                role=Role(raw["role"]),
                speaker=raw["speaker"],
                text=raw["text"],
                occurred_at=datetime.fromisoformat(raw["at"]),
            )
            for raw in document[key]
        )

    try:
        return Window(
            owner=document["owner"],
            time_zone=document["time_zone"],
            context=turns("context"),
            turns=turns("turns"),
            cells=document["cells"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a rendered window: {error}") from None
