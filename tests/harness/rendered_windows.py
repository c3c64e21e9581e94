"""Reading a rendered window back, as a model does."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from memforest_core.domain.cells import Window, WindowTurn
from memforest_core.domain.turns import Role

_HEAD = re.compile(r"Memory of (?P<owner>.*), time zone (?P<zone>[\w/+-]+)\.")
_DAY = re.compile(r"(\d{4}-\d\d-\d\d) [A-Z][a-z]+ (\d\d:\d\d)")
_CELL = re.compile(r"\[cell (\d+): turns (\d+)-(\d+)\]")
_SAID = re.compile(r"(?:(?P<number>\d+) )?(?:\[(?P<role>[a-z]+)\] )?(?P<speaker>.*?): (?P<text>.*)", re.DOTALL)
_ENDS = ("People:", "Attributes in use")


def parse_window(message: str) -> Window:
    """The window that ``render_window`` wrote, as far as it shows it: moments to the minute, cells that are to be
    summarized (a number below 0 for others), and no ordinals but the turns' numbers.

    Raises ValueError on anything else.
    """
    first, *lines = message.split("\n")
    head = _HEAD.fullmatch(first)
    if head is None:
        raise ValueError("not a rendered window: it does not begin with whose memory it is")
    zone = ZoneInfo(head["zone"])
    moment = datetime.fromtimestamp(0, zone)
    cells: dict[int, int] = {}
    context: list[WindowTurn] = []
    turns: list[WindowTurn] = []
    for line in lines:
        if line.startswith(_ENDS):
            break
        if line == "Before:":
            continue
        if found := _DAY.fullmatch(line):
            moment = datetime.fromisoformat(" ".join(found.groups())).replace(tzinfo=zone)
        elif found := _CELL.fullmatch(line):
            cell, since, until = (int(each) for each in found.groups())
            cells |= dict.fromkeys(range(since, until + 1), cell)
        elif said := _SAID.fullmatch(line):
            number = int(said["number"] or len(context) - 1)
            role, text = Role(said["role"] or "user"), said["text"].replace("\\n", "\n")
            turn = WindowTurn(
                number, cells.get(number, -number) if said["number"] else 0, number, role, said["speaker"], text, moment
            )
            (turns if said["number"] else context).append(turn)
        else:
            raise ValueError(f"not a rendered window: {line[:80]!r} is no turn")
    return Window(head["owner"], head["zone"], tuple(context), tuple(turns), len(set(cells.values())))
