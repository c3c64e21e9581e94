"""Scopes: what a tree is about, and how wide each family's trees branch."""

from __future__ import annotations

from enum import StrEnum


class TreeKind(StrEnum):
    """The three tree families."""

    SESSION = "session"
    ENTITY = "entity"
    SCENE = "scene"


class ScopeState(StrEnum):
    """A scope is a candidate until it has enough evidence to deserve a tree."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    MERGED = "merged"
