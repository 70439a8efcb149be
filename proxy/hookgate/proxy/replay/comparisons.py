"""Comparisons of policies in a process of their own, one at a time, for the panel."""

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path

from hookgate.hooks.runners.cleanup import MARK_VARIABLE, ProcessTree, end_process_tree, track_process
from hookgate.hooks.runners.process import restore_descriptor_limit
from hookgate.hooks.settings import SettingsSource
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.index.query import Query, parse_query
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.errors import ApiError
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.policy.pushed import pushed_source
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

MAX_CALLS = 2000
"""The maximum number of calls and events that are replayed: the newest ones."""

MAX_SECONDS = 60.0
"""How long calls are replayed."""

_NICENESS, _LOWEST = 10, 19

_OTHER_SECONDS = 30.0
"""How long the process may take in addition: to start, and to find the calls."""

_LEAVING_SECONDS = 2.0
"""How long the process may take to end its hooks before it is killed."""

_LONGEST_LINE = 16 * 1024 * 1024

_REVISIONS = 50
"""The number of revisions to choose from."""

_NEEDS_AUDIT = "This needs the audit, which has the calls to replay. Set audit.enabled to true."
_RUNNING = "Policies are being compared; wait until that has ended, or stop it."
_DIED = "The process that replays calls has ended unexpectedly; see the gateway's log."


@dataclass(frozen=True, slots=True)
class ComparisonJob:
    """Which calls to replay, and with which policy.

    `sources` are the settings of its hooks, `state` is the state folder, and `url` that of the database; None
    for one in the state folder.
    """

    config: Config
    sources: tuple[SettingsSource, ...]
    state: Path
    url: str | None
    query: Query
    max_calls: int
    max_seconds: float


@dataclass(slots=True)
class _Comparison:
    """One comparison. `about` says what is compared, and `progress` is what its process has told."""

    about: JsonObject
    state: str = "running"
    progress: JsonObject = field(default_factory=dict)


class PolicyComparisons:
    """Compares a policy with what was decided. The latest comparison is kept."""

    def __init__(
        self, config: Config, sources: Sources, pushed: PushedPolicy | None, url: str | None
    ) -> None:
        """Compare with calls in the audit at `url`, by hooks of `sources` or revisions of `pushed`."""
        self._config, self._sources, self._pushed, self._url = config, sources, pushed, url
        self._latest: _Comparison | None = None
        self._task: asyncio.Task[None] | None = None

    async def describe(self) -> JsonObject:
        """Return the revisions to choose from, and the latest comparison with its result so far."""
        latest, pushed = self._latest, self._pushed
        revisions = [] if pushed is None else await asyncio.to_thread(pushed.revisions)
        return {
            "revisions": [
                {
                    "number": each.number,
                    "pushed": utc_text(each.pushed, "seconds"),
                    "pushed_by": each.pushed_by,
                    "message": each.message,
                }
                for each in revisions[:_REVISIONS]
            ],
            "comparison": latest and {**latest.about, "state": latest.state, **latest.progress},
        }

    async def plan(self, text: str, revision: int | None, by: str) -> Callable[[], Awaitable[JsonObject]]:
        """Return what starts a comparison with the calls of a query. Raises ApiError if that is not possible.

        `revision` is the number of one of the pushed policy; None means the settings now in force.
        """
        if not self._config.audit.enabled:
            raise ApiError(400, _NEEDS_AUDIT)
        self._check_idle()  # what is refused is not recorded
        query, sources = _read_query(text), self._sources
        if revision is not None:
            sources = await self._with_revision(revision)
        places = await asyncio.to_thread(sources.places)
        job = ComparisonJob(
            self._config, tuple(places), sources.state, self._url, query, MAX_CALLS, MAX_SECONDS
        )
        about = {"q": text, "revision": revision, "by": by, "began": utc_text(time.time(), "seconds")}

        async def start() -> JsonObject:
            self._check_idle()
            self._latest = _Comparison(about)
            self._task = asyncio.create_task(_run(job, self._latest))
            return await self.describe()

        return start

    async def stop(self) -> JsonObject:
        """Stop the comparison that runs, if there is one, and return the same as `describe`."""
        await self.close()
        return await self.describe()

    async def close(self) -> None:
        """Stop the comparison that runs, if there is one."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._latest is not None and self._latest.state == "running":
            self._latest.state = "stopped"

    def _check_idle(self) -> None:
        if self._task is not None and not self._task.done():
            raise ApiError(429, _RUNNING)

    async def _with_revision(self, number: int) -> Sources:
        """Return the sources with another revision of the pushed policy. Raises ApiError without it."""
        pushed = self._pushed
        found = None if pushed is None else await asyncio.to_thread(pushed.find, number)
        if found is None:
            raise ApiError(404, f"No revision {number} of a policy was pushed.")
        source = pushed_source(found)
        return replace(self._sources, added=lambda: [source])


def _read_query(text: str) -> Query:
    try:
        query = parse_query([text], zone=UTC)
    except ValueError as error:
        raise ApiError(400, f"q: {error}") from None
    if query.sort != "time" or query.ascending:
        raise ApiError(400, "q: sort: the newest calls are compared; leave it out")
    return query


async def _run(job: ComparisonJob, comparison: _Comparison) -> None:
    """Run a comparison to its end, which its state tells then."""
    try:
        async with asyncio.timeout(job.max_seconds + _OTHER_SECONDS), _running_process(job) as lines:
            done = False
            async for line in lines:
                progress = loads(line)
                done = progress.pop("done", False)
                comparison.progress = progress
            comparison.state = "ended" if done else "failed"
            if not done:
                comparison.progress = {"error": _DIED, **comparison.progress}
    except TimeoutError:
        comparison.state = "ended"
        comparison.progress = {**comparison.progress, "bound": "seconds"}
    except (OSError, ValueError) as error:
        comparison.state = "failed"
        comparison.progress = {"error": f"The process that replays calls cannot be used: {error}"}


@contextlib.asynccontextmanager
async def _running_process(job: ComparisonJob) -> AsyncIterator[asyncio.StreamReader]:
    """Run a process with a low priority while the block runs. Yields its lines. Raises OSError."""
    process = _spawn()
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader(limit=_LONGEST_LINE)
    try:
        output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)
        job_input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        try:
            job_input.write(pickle.dumps(job))
            yield lines
        finally:
            job_input.abort()
            await _until_end(lines)
            output.close()
    finally:
        await end_process_tree(process)


def _spawn() -> "subprocess.Popen[bytes]":
    """Start the process. The caller must await `end_process_tree` afterwards."""
    tree = ProcessTree()
    process = subprocess.Popen(
        # With -P, no module of the current folder is imported: an agent may be able to write there.
        [sys.executable, "-P", "-m", "hookgate.proxy.replay.comparison_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK_VARIABLE: tree.mark},
        start_new_session=True,
        bufsize=0,
    )
    restore_descriptor_limit(process.pid)
    track_process(process, tree)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, process.pid, min(own + _NICENESS, _LOWEST))
    return process


async def _until_end(lines: asyncio.StreamReader) -> None:
    """Let a process whose input has ended leave by itself, with the programs of its hooks, but soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LEAVING_SECONDS):
            while await lines.read(_LONGEST_LINE):
                pass
