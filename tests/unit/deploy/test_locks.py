"""What is installed is what was locked: exact versions with hashes, bounds on both sides, nothing from a named host."""

from __future__ import annotations

from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.deploy.builders import declared, locked, project

LOCKS = ["requirements.lock", "deploy/requirements.lock", "deploy/build.lock"]
IMAGE_EXTRAS = {"", "minilm", "redact"}
STOLEN = ("1.82.7", "1.82.8")
"""litellm releases that were published with stolen credentials and carried malware (OSV MAL-2026-2144)."""

DEPENDENCIES = [
    pytest.param(extra, requirement, id=f"{extra or 'core'}-{requirement.name}")
    for extra, requirement in declared()
    if requirement.name != project()["name"]
]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_an_exact_version_and_hashes(lock: str) -> None:
    """Given a lock file, then each line is a version or a hash: no host, no path, no option."""
    assert locked(lock)


@pytest.mark.parametrize(("extra", "requirement"), DEPENDENCIES)
def test_a_dependency_is_bounded_and_locked(extra: str, requirement: Requirement) -> None:
    """Given a dependency, then it has an upper bound, and its locked versions lie within its bounds."""
    operators = {specifier.operator for specifier in requirement.specifier}
    assert operators & {"<", "<=", "=="}
    versions = locked("requirements.lock")[canonicalize_name(requirement.name)]
    assert all(requirement.specifier.contains(version) for version in versions)
    if extra in IMAGE_EXTRAS:
        assert canonicalize_name(requirement.name) in locked("deploy/requirements.lock")


@pytest.mark.parametrize("lock", LOCKS[1:])
def test_the_image_gets_the_versions_that_were_tested(lock: str) -> None:
    """Given a lock file of the image, then each of its versions is the one that the tests run with."""
    tested = locked("requirements.lock")
    assert {name: tested.get(name) for name in locked(lock)} == locked(lock)


def test_the_image_has_neither_test_tools_nor_embedded_servers() -> None:
    """Given the image's lock file, then what only development and the embedded node need is missing."""
    only = {canonicalize_name(requirement.name) for extra, requirement in declared() if extra in {"dev", "embedded"}}
    needed = {canonicalize_name(requirement.name) for extra, requirement in declared() if extra in IMAGE_EXTRAS}
    # litellm itself needs jsonschema.
    unexpected = (only - needed - {"memforest", "jsonschema"}) & locked("deploy/requirements.lock").keys()
    assert unexpected == set()


def test_this_environment_has_the_locked_versions() -> None:
    """Given the environment that runs this test, then what was locked is there in the locked version."""
    wanted = locked("requirements.lock")
    installed = {canonicalize_name(found.name): found.version for found in metadata.distributions()}
    differing = {name: version for name, version in installed.items() if name in wanted and version not in wanted[name]}
    assert differing == {}


def test_the_stolen_litellm_releases_are_excluded() -> None:
    """Given the requirement on litellm, then the two with malware are excluded by name, whatever its bounds."""
    requirement = next(found for _, found in declared() if found.name == "litellm")
    excluded = {part.version for part in requirement.specifier if part.operator == "!="}
    assert excluded >= set(STOLEN)
