"""`python -m hookgate.proxy` is the `hookgate` command, and `main` that of an installation."""

import sys


def main() -> int:
    """Run the command. An agent waits for `event` at every step, so that meets nothing of the others."""
    if sys.argv[1:2] == ["event"]:
        from hookgate.shim.command.event import main as event  # noqa: PLC0415  # see above

        return event(sys.argv[2:])
    from hookgate.proxy.cli import main as command  # noqa: PLC0415  # see above

    return command()


if __name__ == "__main__":
    sys.exit(main())
