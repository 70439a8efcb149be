"""The supervisor of several workers: it keeps them running, and shows all of them as one gateway."""

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import orjson

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.layers_in_force import NotInForce
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.hooks.runs import HookKey, HookStatus
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy import policy
from hookgate.proxy.admin.listener import AdminListener, reload_on_hangup, serve_admin, state_of_hooks
from hookgate.proxy.admin.panel import open_panel
from hookgate.proxy.config import Config, EffectiveConfig
from hookgate.proxy.config.reading import Sources, find_sources, settings_warnings
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe import logs
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.observe.receipts import Receipts
from hookgate.proxy.observe.usage import read_prices
from hookgate.proxy.policy.unmet_conditions import warn_of_unmet_conditions
from hookgate.proxy.replay.comparisons import PolicyComparisons
from hookgate.proxy.replay.trials import HookTrials
from hookgate.proxy.server.listener import CLIENTS, bind_listeners, url_of
from hookgate.proxy.sessions.opening import open_sessions_of
from hookgate.proxy.store import Store
from hookgate.proxy.upstream.access_tokens import PolicyTokens
from hookgate.proxy.workers.interrupts import catch_interrupts
from hookgate.proxy.workers.processes import SupervisedWorker, WorkerProcesses
from hookgate.proxy.workers.worker import RECORDED
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate")

_ANSWER_SECONDS = 5.0
"""Seconds that a worker has to answer its supervisor."""

_RETRY_SECONDS = 0.5


class WorkerGroup:
    """The workers as the supervisor asks them. Their ended calls and health arrive by themselves."""

    def __init__(self, processes: WorkerProcesses, reloader: EngineReloader, receipts: Receipts) -> None:
        self._processes, self._reloader, self._receipts = processes, reloader, receipts
        self._health: dict[SupervisedWorker, list[JsonObject]] = {}

    async def reload(self) -> list[NotInForce]:
        """Apply changed settings of hooks at all workers. Returns the layers that are not in force then."""
        answers = asyncio.gather(*map(self._reload, self._all))
        await asyncio.gather(self._reloader.reload(), answers)
        layers = [*self._reloader.not_in_force, *(layer for answer in answers.result() for layer in answer)]
        return list(dict.fromkeys(layers))

    async def _reload(self, worker: SupervisedWorker) -> list[NotInForce]:
        answer = await self._ask(worker, "POST", "/reload")
        if answer:
            return [NotInForce(**layer) for layer in orjson.loads(answer)]
        if not worker.ready.is_set():
            return []  # it reads the settings when it starts
        why = f"worker {worker.number} has not confirmed the change; see its log"
        return [NotInForce("all", "", utc_text(precision="seconds"), why)]

    async def record_change(self, by: str, change: str, about: JsonObject) -> None:
        """Have a worker record a change in the audit. Raises ApiError (403) if none can."""
        record = orjson.dumps({"by": by, "change": change, "about": about})
        for worker in self._all:
            if await self._ask(worker, "POST", "/change", record) == RECORDED:
                return
        raise ApiError(
            403, "No worker can write the audit record, so changes are refused.", "AUDIT_UNAVAILABLE"
        )

    async def metrics_page(self) -> bytes:
        """Return the metrics of all workers."""
        pages = await asyncio.gather(*(self._ask(worker, "GET", "/metrics") for worker in self._all))
        return merged_metrics(
            {worker.number: page for worker, page in zip(self._all, pages, strict=True) if page}
        )

    async def readiness(self) -> dict[int, JsonObject | None]:
        """Return the body of `/readyz` of each worker, by its number; None for a worker that is down."""
        answers = await asyncio.gather(*(self._ask(worker, "GET", "/readyz") for worker in self._all))
        return {
            worker.number: orjson.loads(answer) if answer else None
            for worker, answer in zip(self._all, answers, strict=True)
        }

    async def follow(self) -> None:
        """Keep the receipts and the health of hooks up to date until cancelled."""
        await asyncio.gather(*map(self._follow, self._all))

    @property
    def _all(self) -> list[SupervisedWorker]:
        return self._processes.workers

    @staticmethod
    async def _ask(worker: SupervisedWorker, method: str, path: str, body: bytes | None = None) -> bytes:
        """Return what a worker answers; nothing if it is down."""
        if not worker.ready.is_set():
            return b""
        answer = asyncio.ensure_future(_answer(worker, method, path, body))
        ended = asyncio.ensure_future(worker.ended.wait())
        # The socket stays open for the next process, so the end of this one does not end the connection.
        await asyncio.wait((answer, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not answer.done():
            answer.cancel()
            return b""
        return answer.result()

    async def _follow(self, worker: SupervisedWorker) -> None:
        while True:
            await worker.ready.wait()
            unlimited = aiohttp.ClientTimeout(total=None)
            with contextlib.suppress(aiohttp.ClientError):
                async with _connected(worker) as client, client.get("/feed", timeout=unlimited) as answer:
                    async for line in _lines(answer):
                        self._take(worker, orjson.loads(line))
            self._take(worker, {"health": []})
            await asyncio.sleep(_RETRY_SECONDS)

    def _take(self, worker: SupervisedWorker, message: JsonObject) -> None:
        if "receipt" in message:
            self._receipts.keep(message["receipt"], message["share"])
            return
        self._health[worker] = message["health"]
        health = self._reloader.health
        health.hooks = merged_health(self._health.values())
        engine = self._reloader.current.configuration
        health.retain(engine.hooks(), engine.off)


async def _answer(worker: SupervisedWorker, method: str, path: str, body: bytes | None) -> bytes:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            _connected(worker) as client,
            client.request(method, path, data=body, timeout=timeout) as answer,
        ):
            return await answer.read()
    except (aiohttp.ClientError, TimeoutError):
        return b""


def _connected(worker: SupervisedWorker) -> aiohttp.ClientSession:
    connector = aiohttp.UnixConnector(str(worker.path))
    return aiohttp.ClientSession("http://localhost", connector=connector)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


class SupervisorListener(AdminListener):
    """The request handler for operators, about all workers."""

    group: WorkerGroup | None = None

    async def metrics_page(self) -> bytes:
        return b"" if self.group is None else await self.group.metrics_page()

    async def readiness(self) -> tuple[int, JsonObject]:
        if self.draining or self.reloader is None or self.group is None:
            return await super().readiness()
        answers = await self.group.readiness()
        if problem := first_problem(answers):
            return 503, problem
        layers = layers_out_of_force(self.reloader.not_in_force, answers.values())
        state = {**state_of_hooks(self.reloader), **policy.settings_out_of_force(layers)}
        return 200, {"status": "ready", **state, **oldest_policy(answers.values())}


@asynccontextmanager
async def _running_admin(
    config: Config, reloader: EngineReloader, processes: WorkerProcesses
) -> AsyncIterator[SupervisorListener]:
    """Serve operators, and pass reloads on to the workers, while the block runs."""
    address = config.admin.address
    host = () if address is None else (host_and_port(address)[0],)
    admin = SupervisorListener(Metrics(), (*config.admin.hosts, *host))
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(reload_on_hangup(reloader, None, processes.request_reload))
        if address is not None:
            url = await stack.enter_async_context(serve_admin(admin, *host_and_port(address)))
            log.info("admin listener on %s (panel, metrics, health)", url)
        yield admin


async def supervise(effective: EffectiveConfig) -> None:
    """Run workers until interrupted. Raises SettingsError, ValueError or OSError if they cannot start."""
    interrupted, config = catch_interrupts(), effective.config
    logs.configure(config.logs)
    with policy.open_pushed_policy(config, find_sources(config.hooks)) as (sources, pushed):
        await _supervise(effective, sources, pushed, interrupted)


async def _supervise(
    effective: EffectiveConfig,
    sources: Sources,
    pushed: policy.PushedPolicy | None,
    interrupted: asyncio.Event,
) -> None:
    config = effective.config
    url = Store(config.store, sources.state).url()
    prices, tokens = read_prices(config.prices.file), PolicyTokens(config.credentials)
    reloader = policy.load_policy(sources, prices=prices, access_tokens=tokens)
    listeners = await bind_listeners(*host_and_port(config.listen.address), CLIENTS)
    gateway_url = url_of("https" if config.listen.certificate else "http", listeners[0].getsockname())
    with (
        logs.written_in_background(),
        adopting_orphans(),
        tempfile.TemporaryDirectory(prefix="hookgate-") as folder,
        contextlib.closing(WorkerProcesses(config.listen.workers, listeners, Path(folder))) as processes,
    ):
        receipts = Receipts()
        group = WorkerGroup(processes, reloader, receipts)
        record = group.record_change if config.audit.enabled else None
        async with (
            policy.running_policy(reloader, sources.state, pushed),
            _running_admin(config, reloader, processes) as admin,
            open_sessions_of(config, url, sources.state) as sessions,
            open_panel(
                effective,
                sources,
                reloader,
                receipts,
                url,
                admin.url,
                pushed,
                group.reload,
                record,
                sessions,
                readiness=admin.readiness,
                try_hooks=HookTrials(reloader, sources.state, prices, tokens).run,
                comparisons=PolicyComparisons(config, sources, pushed, url),
            ) as admin.panel,
        ):
            admin.receipts, admin.group, admin.pushed = receipts, group, pushed
            following = asyncio.create_task(group.follow())
            await processes.start()
            admin.reloader = reloader
            where = f"listening on {gateway_url}, upstream {config.upstream.gemini}"
            policy.log_start(reloader.current, sources, f"{where}, {config.listen.workers} workers")
            warn_of_unmet_conditions(reloader.current.configuration, config)
            for warning in settings_warnings(effective):
                log.warning("%s", warning)
            if admin.panel is not None and admin.panel.invitation:
                log.info("%s", admin.panel.invitation)
            await interrupted.wait()
            admin.draining = True
            log.info("stopping: waiting for calls in progress; interrupt again to abort them")
            try:
                await processes.stop()
            except asyncio.CancelledError:
                await processes.abort()
                raise
            finally:
                following.cancel()


def merged_metrics(pages: Mapping[int, bytes]) -> bytes:
    """Merge the workers' metrics, given by worker number, into one page in Prometheus' text format.

    Each sample gets the label `worker`. Sums would fall when a worker is restarted, which Prometheus would
    take for a restart of all of them.
    """
    families: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
    for number, page in pages.items():
        label = b'worker="%d"' % number
        comments: list[bytes] = []
        samples: list[bytes] = []
        for line in page.splitlines():
            if line.startswith(b"# HELP "):
                comments, samples = families.setdefault(line.split(b" ", 3)[2], ([], []))
            if not line.startswith(b"#"):
                samples.append(_labelled(line, label))
            elif line not in comments:
                comments.append(line)
    lines = (line for comments, samples in families.values() for line in (*comments, *samples))
    return b"".join(line + b"\n" for line in lines)


def _labelled(sample: bytes, label: bytes) -> bytes:
    name = sample[: sample.index(b" ")] if b"{" not in sample else sample[: sample.index(b"{")]
    rest = sample[len(name) :]
    if rest.startswith(b"{"):
        return name + b"{" + label + b"," + rest[1:]
    return name + b"{" + label + b"}" + rest


def merged_health(reports: Iterable[list[JsonObject]]) -> dict[HookKey, HookStatus]:
    """Return the status of hooks, summed over all workers.

    A hook is degraded if its last run failed at any worker.
    """
    merged: dict[HookKey, HookStatus] = {}
    for record in (record for report in reports for record in report):
        event, name, target = record["hook"]
        status = merged.setdefault((event, name, target), HookStatus())
        status.runs += record["runs"]
        status.failures += record["failures"]
        status.denials += record["denials"]
        status.warning = record["warning"] or status.warning
        if record["error"] or not status.error:
            status.error, status.summary, status.seconds = (
                record["error"],
                record["summary"],
                record["seconds"],
            )
    return merged


def oldest_policy(answers: Iterable[JsonObject | None]) -> JsonObject:
    """Return the field `policy` of `/readyz`: that of the worker with the oldest revision of the policy."""
    found = [answer["policy"] for answer in answers if answer and "policy" in answer]
    return (
        {"policy": min(found, key=lambda policy: (policy["state"] == "current", policy["number"]))}
        if found
        else {}
    )


def layers_out_of_force(own: Iterable[NotInForce], answers: Iterable[JsonObject | None]) -> list[NotInForce]:
    """Return each layer that is not in force at the supervisor or at a worker, since the earliest time."""
    layers = [*own]
    layers += [
        NotInForce(**layer) for answer in answers if answer for layer in answer.get("not_in_force", [])
    ]
    found: dict[tuple[str, str, str], NotInForce] = {}
    for layer in sorted(layers, key=lambda layer: layer.since):
        found.setdefault((layer.layer, layer.file, layer.reason), layer)
    return list(found.values())


def first_problem(answers: Mapping[int, JsonObject | None]) -> JsonObject | None:
    """Return the body of `/readyz` if a worker is not ready, or None. A worker that is down has no answer."""
    for number, answer in answers.items():
        if answer is None:
            return {"status": "unready", "reason": f"worker {number} is down, and is being restarted"}
        if answer["status"] != "ready":
            return {**answer, "reason": f"worker {number}: {answer['reason']}"}
    return None
