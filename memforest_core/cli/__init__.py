"""The command line ``memforest``; what a command needs is imported when it runs."""


def main() -> None:
    """Run the command line; see ``memforest_core.cli.toolkit.output`` for exit codes."""
    from memforest_core.cli.own_process import set_up_process

    set_up_process()
    from memforest_core.cli.program import app

    app()
