"""``python -m memforest_core.cli`` is the command line, also where no script is installed."""

from memforest_core.cli import main

main()
