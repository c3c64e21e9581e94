"""Commands that only call a method and print what it returns, from a description of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from memforest_core.cli.toolkit.memory_opening import opened_memory, opened_store
from memforest_core.cli.toolkit.options import (
    CursorOption,
    DataOption,
    Given,
    JsonOption,
    LimitOption,
    OwnerOption,
    argument,
    option,
    with_parameters,
)
from memforest_core.cli.toolkit.output import answered, print_json
from memforest_core.domain.pages import Document, Page

Methods = Callable[[str], Callable[..., Any]]
"""Gives a method by its name."""


@contextmanager
def memory_methods(data: Path | None) -> Iterator[Methods]:
    with opened_memory(data) as memory:
        yield partial(getattr, memory)


@contextmanager
def client_methods(data: Path | None, *, create: bool = False) -> Iterator[Methods]:
    with opened_store(data, create=create) as store:
        yield partial(getattr, store.client)


new_client_methods = partial(client_methods, create=True)


def given_argument(
    name: str, text: str, metavar: str, kind: Any = str, default: Any = inspect.Parameter.empty
) -> Given:
    return Given(name, Annotated[kind, argument(text, metavar=metavar)], default)


def given_option(name: str, text: str, kind: Any = str | None, default: Any = None) -> Given:
    return Given(name, Annotated[kind, option(text) if default is None else typer.Option(help=text)], default)


OWNER = Given("owner", OwnerOption)
CURSOR = Given("cursor", CursorOption, None)
LIMIT = Given("limit", LimitOption, 100)


class Command(NamedTuple):
    """A command that calls a method, and prints its result as JSON or by ``show``."""

    name: str
    help: str
    show: Callable[[Any], None]
    given: tuple[Given, ...]

    def made(
        self, opening: Callable[[Path | None], AbstractContextManager[Methods]] = memory_methods, prefix: str = ""
    ) -> Callable[..., None]:
        """The command as typer reads it; ``opening`` gives the method, whose name is its own after a ``prefix``."""
        given = (*self.given, Given("data", DataOption, None), Given("as_json", JsonOption, False))

        def run(*, data: Path | None, as_json: bool, **values: Any) -> None:
            with opening(data) as methods:
                found = methods(prefix + self.name)(**values)
                owner = values.get("owner") if hasattr(found, "owner_known") else None
                if as_json and isinstance(found, Page):
                    items = [each.to_dict() if isinstance(each, Document) else each for each in found.items]
                    print_json(replace(found, items=tuple(items)))
                elif not answered(found, owner, as_json=as_json):
                    self.show(found)

        return with_parameters(run, given, self.name, self.help)
