"""For Celery's own commands in this folder (``celery report``, ``celery flower``): they look for a module of this name.

It is not installed: with another Celery app it would be taken for that one's settings.
"""

from __future__ import annotations

from memforest_workers.celeryconfig import *  # noqa: F403
