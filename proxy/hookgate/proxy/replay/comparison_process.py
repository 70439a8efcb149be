"""The process that replays calls for a gateway, so that this delays none of the gateway's own calls.

It reads a pickled ComparisonJob from stdin, and writes lines of JSON to stdout. It ends when stdin ends, at
the latest with the gateway.
"""

import asyncio
import os
import pickle
import sys
from typing import BinaryIO

from sqlalchemy.exc import SQLAlchemyError

from hookgate.hooks import SettingsError
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.proxy.errors import StoreError
from hookgate.proxy.replay.calls_comparison import compare_calls
from hookgate.proxy.replay.comparisons import ComparisonJob
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps


def run_comparison() -> None:
    """Run the job. What functions of hooks print goes to stderr."""
    job: ComparisonJob = pickle.load(sys.stdin.buffer)  # noqa: S301  # only the gateway writes there
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0) as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            asyncio.run(_run(job, answers))
        except (asyncio.CancelledError, BrokenPipeError):  # the gateway wants no more
            return


async def _run(job: ComparisonJob, answers: BinaryIO) -> None:
    loop, task, stdin = asyncio.get_running_loop(), asyncio.current_task(), sys.stdin.fileno()

    def tell(state: JsonObject) -> None:
        answers.write(dumps(state) + b"\n")

    def leave() -> None:
        loop.remove_reader(stdin)
        if task is not None:
            task.cancel()

    loop.add_reader(stdin, leave)
    with adopting_orphans():
        try:
            await compare_calls(job, tell)
        except (SettingsError, StoreError, SQLAlchemyError, ValueError) as error:
            tell({"error": str(error)})


if __name__ == "__main__":
    run_comparison()
