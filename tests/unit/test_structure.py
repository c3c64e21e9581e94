"""What import-linter can't say: no import cycle of modules, and each library in the folder that wraps it."""

from __future__ import annotations

import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import hypothesis
import pytest

import memforest_core
from tests.conftest import is_left_out

CORE = "memforest_core"
TESTS = Path(__file__).parents[1]
SHARED_NAMES = {"rows", "service", "records", "cli", "http", "__init__"}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """All imports of the product, those in functions and for type checking included."""
    return grimp.build_graph(CORE, "memforest_workers", include_external_packages=True, cache_dir=None)


def is_command(module: str) -> bool:
    return "cli" in module.split(".")


def importers(graph: grimp.ImportGraph, library: str) -> set[str]:
    return graph.find_modules_that_directly_import(library) if library in graph.modules else set()


def test_no_module_imports_itself_through_others(graph: grimp.ImportGraph) -> None:
    own = {module for module in graph.modules if module.startswith("memforest_")}
    imports = {module: graph.find_modules_directly_imported_by(module) & own for module in own}

    TopologicalSorter(imports).prepare()  # raises CycleError, which names the cycle


def test_a_name_belongs_to_one_module() -> None:
    packages = (CORE, "memforest_workers")
    modules = Counter(path.stem for package in packages for path in (TESTS.parent / package).rglob("*.py"))

    assert {name for name, count in modules.items() if count > 1} <= SHARED_NAMES


def test_only_the_command_line_imports_commands(graph: grimp.ImportGraph) -> None:
    wrong = {
        (importer, module)
        for module in graph.modules
        if is_command(module)
        for importer in graph.find_modules_that_directly_import(module)
        if not is_command(importer)
    }

    assert wrong == set()


def test_tests_import_no_benchmarks() -> None:
    """Benchmarks take the harness of the tests; the other way round only their own tests may."""
    imports = re.compile(r"^\s*(from|import) benchmarks\b", re.MULTILINE)
    found = {path.relative_to(TESTS) for path in TESTS.rglob("*.py") if imports.search(path.read_text())}

    assert {path for path in found if path.parts[0] != "benchmarks"} == set()


def test_all_tiers_but_one_are_collected(pytestconfig: pytest.Config) -> None:
    """The frameworks' packages are in an environment of their own; .ci/run tests them by make integrations."""
    folders = {f"tests/{path.name}" for path in TESTS.iterdir() if any(path.rglob("test_*.py"))}

    assert set(pytestconfig.getini("testpaths")) == folders - {"tests/integrations"}
    assert "make integrations" in (TESTS.parent / ".ci" / "run").read_text()


def test_each_target_of_tests_imports_the_files_that_it_needs(tmp_path: Path) -> None:
    """Given a file with one slow test, one without and one for releases alone, then no target leaves a test of its own
    out, and without a target nothing is left out."""
    both, fast = tmp_path / "test_both.py", tmp_path / "test_fast.py"
    both.write_text("import pytest\n\n\n@pytest.mark.release\ndef test_slow() -> None: ...\n")
    fast.write_text("def test_fast() -> None: ...\n")
    slow, folder = TESTS / "acceptance" / "test_wheel.py", TESTS / "benchmarks"
    paths = (both, fast, slow, folder, folder / "test_chaos.py", TESTS / "unit", TESTS / "conftest.py")

    assert [path for path in paths if is_left_out(path, "release")] == [fast]
    assert [path for path in paths if is_left_out(path, "not release")] == [slow, folder, folder / "test_chaos.py"]
    assert [path for path in paths if is_left_out(path, "") or is_left_out(path, "unit")] == []


def test_generated_examples_have_no_time_limit() -> None:
    """Hypothesis' own limit of 200 ms for an example would fail on a busy machine."""
    assert hypothesis.settings().deadline is None


@pytest.mark.parametrize(("library", "folder"), [("qdrant_client", "index"), ("qdrant_edge", "index")])
def test_a_library_has_one_folder(graph: grimp.ImportGraph, library: str, folder: str) -> None:
    found = importers(graph, library)

    assert found
    assert {module for module in found if not module.startswith(f"{CORE}.{folder}.")} == set()


def test_litellm_is_imported_in_one_place() -> None:
    """By its name, late: no import statement shows it."""
    found = [path for path in Path(memforest_core.__file__).parent.rglob("*.py") if '("litellm")' in path.read_text()]

    assert [path.name for path in found] == ["litellm_runtime.py"]


def test_statements_are_in_rows_and_in_the_store(graph: grimp.ImportGraph) -> None:
    def may(module: str) -> bool:
        return module.startswith(f"{CORE}.store.") or any(part.endswith("rows") for part in module.split("."))

    assert {module for module in importers(graph, "sqlalchemy") if not may(module)} == set()
