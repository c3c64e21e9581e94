"""What a forked child must not share: it inherits sockets, locks and counts, but none of the threads that use them.

gunicorn with ``--preload``, Celery's prefork pool and ``multiprocessing`` fork a process that has connected already.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

_renewals: dict[int, tuple[weakref.ref[Any], Callable[[Any], object]]] = {}
"""By the id of a living object: what a child does with that object."""
_inherited: list[object] = []
"""Never freed in a child: a destructor would wait for the parent's threads or write to the parent's sockets."""


def in_child(owner: T, renew: Callable[[T], object]) -> None:
    """Call ``renew`` with ``owner`` in each forked child in which ``owner`` still lives; ``renew`` must not refer to
    it: it would never be freed."""
    key = id(owner)
    _renewals[key] = weakref.ref(owner, lambda _: _renewals.pop(key, None)), renew


def abandon(inherited: object) -> None:
    """Hold what a child has replaced, so that no destructor runs."""
    _inherited.append(inherited)


def renewed_in_child(made: type[T]) -> type[T]:
    """A class whose objects begin again in a forked child, with the arguments that they were made with.

    They stay the same objects, so that all who hold them go on. Arguments must not refer to the object itself.
    """
    construct: Callable[..., None] = made.__init__

    @wraps(construct)
    def constructed(self: T, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)

        def renew(owner: T) -> None:
            names = [name for each in type(owner).__mro__ for name in getattr(each, "__slots__", ())]
            abandon([getattr(owner, name, None) for name in (*names, *getattr(owner, "__dict__", ()))])
            construct(owner, *args, **kwargs)

        in_child(self, renew)

    made.__init__ = constructed  # type: ignore[assignment, method-assign]
    return made


def _renew() -> None:
    for owner, renew in list(_renewals.values()):
        living = owner()
        if living is not None:
            renew(living)


os.register_at_fork(after_in_child=_renew)
