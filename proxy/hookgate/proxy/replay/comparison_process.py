"""The process that compares a policy with what was decided, so that this delays none of the gateway's calls.

It reads a pickled ComparisonJob from stdin, and writes lines of JSON to stdout. It ends when stdin ends, at
the latest with the gateway.
"""

import asyncio
import contextlib
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from sqlalchemy.exc import SQLAlchemyError

from hookgate.hooks import SettingsError
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.hooks.settings import load_sources
from hookgate.hooks.trust import TrustStore
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.audit.index.searching import CallSearch
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.errors import StoreError
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.replay.comparisons import ComparisonJob
from hookgate.proxy.replay.recordings import RecordedEnd, RecordedStart, read_calls, stored_document
from hookgate.proxy.replay.replaying import Replay, ReplayClock, replaying_engine
from hookgate.proxy.replay.report import ReplayReport
from hookgate.proxy.store.database import open_audit
from hookgate.proxy.upstream.access_tokens import PolicyTokens
from hookgate.proxy.upstream.client import Upstreams
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

_INDEX_SECONDS = 5.0
"""How long to index the latest calls before."""

_TELL_SECONDS = 0.5

Tell = Callable[[JsonObject], None]
"""Called with how far it is: `found`, the calls to replay; `bound`, what cut it off; `report`; and `done`."""


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


async def compare_calls(job: ComparisonJob, tell: Tell) -> None:
    """Replay the newest calls of a query in their order, and tell twice a second how far this is.

    Raises SettingsError if the policy cannot be used here, and StoreError and database errors.
    """
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(contextlib.closing(open_audit(job.url, job.state, writes=False)))
        index = stack.enter_context(open_index(database, job.url, job.state))
        index.update(_INDEX_SECONDS)
        places = CallSearch(index).places(job.query, job.max_calls + 1)
        ends = [place.position for place in places[: job.max_calls]]
        records = AuditReader(database).records_of(ends)
        progress = _Progress(tell, len(ends), "calls" if len(places) > job.max_calls else "")
        await _replay(job, read_calls(map(stored_document, records)), progress)


class _Progress:
    """What is known of a comparison so far."""

    def __init__(self, tell: Tell, found: int, bound: str) -> None:
        self.report, self.bound = ReplayReport(), bound
        self._tell, self._found, self._told = tell, found, 0.0

    def send(self, *, done: bool = False) -> None:
        self._told = time.monotonic()
        state = {"found": self._found, "bound": self.bound, "report": self.report.as_json()}
        self._tell({**state, "done": done})

    def send_if_due(self) -> None:
        if time.monotonic() - self._told >= _TELL_SECONDS:
            self.send()


async def _replay(
    job: ComparisonJob, records: Iterator[RecordedStart | RecordedEnd], progress: _Progress
) -> None:
    clock, prices = ReplayClock(), read_prices(job.config.prices.file)
    tokens = PolicyTokens(job.config.credentials)
    engine = replaying_engine(
        load_sources(job.sources),
        clock,
        prices,
        trust_check=TrustStore(job.state).refusal,
        access_tokens=tokens,
    )
    replay = Replay(engine, clock, prices)
    async with Upstreams(job.config.upstream, credentials=job.config.credentials) as upstreams:
        tokens.upstreams = upstreams
        try:
            async with asyncio.timeout(job.max_seconds):
                for recorded in records:
                    progress.send_if_due()
                    await replay.compare(recorded, progress.report)
                    await asyncio.sleep(0)  # hooks that never wait would not let the time end
        except TimeoutError:
            progress.bound = "seconds"
        finally:
            await engine.close()
    progress.send(done=True)


if __name__ == "__main__":
    run_comparison()
