"""Benchmarks: what inserting and refreshing cost as memory grows; each prints one JSON object with ``--json``."""

from memforest_core.cli import set_up_process

# As the commands do: what is measured runs in a process of its own.
set_up_process()
