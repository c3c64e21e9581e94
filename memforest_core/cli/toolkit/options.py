"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Work on an embedded node in this directory instead of the services that the settings name.",
        show_default=False,
    ),
]
MinScoreOption = Annotated[
    float | None, typer.Option("--min-score", help="Leave out evidence that scores less.", show_default=False)
]
ExcludeSessionOption = Annotated[
    list[str] | None,
    typer.Option("--exclude-session", help="Leave this session out; may be given several times.", show_default=False),
]
OwnerOption = Annotated[str, typer.Option("--owner", "-o", help="Whose memory.")]
LimitOption = Annotated[int, typer.Option(help="Items of one page, 1 to 1,000.")]
CursorOption = Annotated[
    str | None, typer.Option(help="Go on after the page that ended with this.", show_default=False)
]
