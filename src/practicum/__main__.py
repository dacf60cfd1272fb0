"""The command `practicum`, also as `python -m practicum`."""

from practicum.core.interrupted import interruptible


def main() -> None:
    """Run the command line; Ctrl-C may come while it is still being loaded."""
    interruptible(_load_and_run)


def _load_and_run() -> None:
    from practicum.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()
