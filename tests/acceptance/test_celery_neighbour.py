"""Other Celery apps in the same environment keep their own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NEIGHBOUR = "from celery import Celery; app = Celery('neighbour'); print(app.conf.task_default_queue)"


def test_an_app_without_settings_does_not_get_ours(tmp_path: Path) -> None:
    """Given a Celery app that names no settings, in an environment with this product, then Celery's defaults hold."""
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NEIGHBOUR], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "celery"
