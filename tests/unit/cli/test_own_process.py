"""What the commands set for their process before anything of numpy is imported."""

from __future__ import annotations

import os
import subprocess
import sys

_PRODUCT = """
import gc, os, sys, psutil
{first}
assert "numpy" not in sys.modules
import numpy
product = numpy.ones((600, 600)) @ numpy.ones((600, 600))
print(psutil.Process().num_threads(), os.environ["OPENBLAS_NUM_THREADS"], gc.get_threshold()[0])
"""
_SET_UP = "from memforest_core.cli.own_process import set_up_process; set_up_process()"


def ran(code: str, **environment: str) -> list[str]:
    names = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    made = subprocess.run(
        [sys.executable, "-c", code], env=names | environment, capture_output=True, text=True, check=True, timeout=60
    )
    return made.stdout.split()


def test_products_have_no_threads_of_their_own() -> None:
    assert ran(_PRODUCT.format(first=_SET_UP)) == ["1", "1", "20000"]


def test_what_somebody_set_stays() -> None:
    assert ran(_PRODUCT.format(first=_SET_UP), OPENBLAS_NUM_THREADS="2")[1] == "2"


def test_the_command_line_sets_it_up_before_it_imports_anything() -> None:
    code = """
import os, sys
from memforest_core.cli import main
sys.argv = ["memforest", "--version"]
try:
    main()
except SystemExit as end:
    assert not end.code
print(os.environ["OPENBLAS_NUM_THREADS"])
"""
    assert ran(code)[-1] == "1"
