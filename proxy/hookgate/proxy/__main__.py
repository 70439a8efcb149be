"""The `hookgate` command: `python -m hookgate.proxy`, and `main` for the installed script."""

import gc
import sys

_COLLECTION_THRESHOLDS = (20_000, 5, 200)
"""Allocations after which young objects are traversed, and how many of these traversals precede older ones.

The defaults (700, 10, 10) would traverse the modules several times while they are imported, and the parsed
body of a large request as well. What a call leaves in reference cycles is small: a transport of asyncio for
each connection. To free 20,000 objects takes some 20 ms, during which nothing else runs.
"""


def main() -> int:
    """Run the command. `event` is on the agent's critical path, so it does not import the other commands."""
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    try:
        if sys.argv[1:2] == ["event"]:
            from hookgate.shim.command.event import run_event  # noqa: PLC0415  # see above

            return run_event(sys.argv[2:])
        from hookgate.proxy.cli.main import run_command  # noqa: PLC0415  # see above

        return run_command()
    except ModuleNotFoundError as error:  # the core was installed alone
        remedy = "install hookgate with its extra proxy"
        print(f"hookgate: {error}; {remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while modules are imported; each command handles it later
        return 130


if __name__ == "__main__":
    sys.exit(main())
