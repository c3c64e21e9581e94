"""Runs all tests in two processes side by side: half of the time one of them waits for a worker, a page or a clock.

``python -m tests.halves [options of pytest]``. The second half's output follows the first's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import TIERS

HALVES = (("integration", "migration", "unit"), ("acceptance", "contract", "property"))
"""Folders of each; a run takes about as long as the longer half."""
HERE = Path(__file__).parent


def command(folders: tuple[str, ...]) -> list[str]:
    """pytest over some folders, with the options of this call."""
    return [sys.executable, "-m", "pytest", *(str(HERE / folder) for folder in folders), *sys.argv[1:]]


def main() -> int:
    """Run both halves; the exit code of the one that failed, if one did."""
    left_out = TIERS.keys() ^ {folder for half in HALVES for folder in half}
    if left_out:
        print(f"Put these folders of tests into a half: {', '.join(sorted(left_out))}", file=sys.stderr)
        return 2
    started = time.monotonic()
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8") as later:
        second = subprocess.Popen(command(HALVES[1]), stdout=later, stderr=subprocess.STDOUT)
        try:
            first = subprocess.run(command(HALVES[0]), check=False).returncode
            code = second.wait()
        finally:
            if second.poll() is None:
                second.terminate()
                second.wait()
        later.seek(0)
        sys.stdout.writelines(later)
    print(f"Both halves of the tests ended after {time.monotonic() - started:.0f} s: {first}, {code}.", flush=True)
    return first or code


if __name__ == "__main__":
    sys.exit(main())
