"""Nothing runs when Python starts but what we know of: the way malware came in with litellm 1.82.8."""

from __future__ import annotations

import re
import site
import sys
from pathlib import Path

import pytest

EXPECTED = {
    # Finds this repository's packages, for the editable installation.
    r"__editable__\.memforest-[\d.]+\.pth": re.compile(
        r"import (__editable___memforest_[\d_]+_finder); \1\.install\(\)\n?"
    ),
    # setuptools: lets its copy of distutils stand in for the one that Python no longer has.
    r"distutils-precedence\.pth": re.compile(
        r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, 'local'\) == 'local'; "
        r"enabled and __import__\('_distutils_hack'(?:, fromlist=\[[^\]]*\])?\)\.add_shim\(\); ?\n?"
    ),
}
START_HOOKS = ("sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize")


def unexpected_starts(folder: Path) -> list[str]:
    """Names of files that run at every start of Python, or add to its path, and are not known here."""
    found = [
        path.name
        for path in sorted(folder.glob("*.pth"))
        if not any(
            re.fullmatch(name, path.name) and content.fullmatch(path.read_text()) for name, content in EXPECTED.items()
        )
    ]
    return found + [name for name in START_HOOKS if (folder / name).exists()]


def test_site_packages_has_no_unknown_start_file() -> None:
    """Given this environment, then its .pth files are the known ones, with the known content."""
    assert sys.prefix != sys.base_prefix, "run the tests in .venv: make test"
    folders = [Path(folder) for folder in site.getsitepackages()]
    assert folders
    assert {str(folder): unexpected_starts(folder) for folder in folders} == {str(folder): [] for folder in folders}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("litellm_init.pth", "import os, subprocess, sys; subprocess.Popen([sys.executable])\n"),
        ("distutils-precedence.pth", "import os; os.system('true')\n"),
        ("__editable__.memforest-0.1.0.pth", "import memforest_payload\n"),
        ("sitecustomize.py", ""),
    ],
)
def test_an_unknown_start_file_is_found(tmp_path: Path, name: str, content: str) -> None:
    """Given a file that a package could drop, also under a known name, then it is reported."""
    (tmp_path / name).write_text(content)
    assert unexpected_starts(tmp_path) == [name]
