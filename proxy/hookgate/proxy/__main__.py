"""The `hookgate` command: `python -m hookgate.proxy`, and `main` for the installed script."""

import sys


def main() -> int:
    """Run the command. `event` is on the agent's critical path, so it does not import the other commands."""
    try:
        if sys.argv[1:2] == ["event"]:
            from hookgate.shim.command.event import run_event  # noqa: PLC0415  # see above

            return run_event(sys.argv[2:])
        try:
            from hookgate.proxy.cli.main import run_command  # noqa: PLC0415  # see above
        except ModuleNotFoundError as error:  # the core was installed alone
            remedy = "in a checkout of hookgate, run: pip install '.[proxy]'"
            print(f"hookgate: {error}; {remedy}", file=sys.stderr)
            return 1
        return run_command()
    except KeyboardInterrupt:  # while modules are imported; each command handles it later
        return 130


if __name__ == "__main__":
    sys.exit(main())
