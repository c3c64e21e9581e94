"""What the commands set for their process before anything of numpy is imported."""

from __future__ import annotations

import os
import subprocess
import sys

VERSION = """
import gc, os, sys, psutil
from memforest_core.cli import main
sys.argv = ["memforest", "--version"]
try:
    main()
except SystemExit as end:
    assert not end.code
import numpy
numpy.ones((600, 600)) @ numpy.ones((600, 600))
print(psutil.Process().num_threads(), os.environ["OPENBLAS_NUM_THREADS"], gc.get_threshold()[0])
"""
"""A command, and then a product in its process."""


def ran(**environment: str) -> list[str]:
    names = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    made = subprocess.run(
        [sys.executable, "-c", VERSION], env=names | environment, capture_output=True, text=True, check=True, timeout=60
    )
    return made.stdout.splitlines()[-1].split()


def test_products_have_no_threads_of_their_own() -> None:
    assert ran() == ["1", "1", "20000"]
