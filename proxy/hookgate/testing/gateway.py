"""A gateway in front of the mock upstream, in a thread of the test's process, on free ports.

The gateway is imported only when one is started: pytest loads this module at each start.
"""

import asyncio
import http.client
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from hookgate.testing.calls import (
    Answer,
    CallLog,
    check_absent,
    check_answered,
    check_denied,
    check_hook,
)

if TYPE_CHECKING:
    from hookgate.proxy.config import Config
    from hookgate.proxy.mock_upstream import MockUpstream, RecordedRequest

T = TypeVar("T")

Document = Path | str | Mapping[str, Any]
"""A JSON file, or its content."""

_SECTIONS = frozenset(
    {"upstream", "limits", "streams", "tools", "routes", "shims", "clients", "keys", "transcripts", "prices"}
)
"""Sections of the configuration that have an effect on a gateway under test."""

_SECONDS = 60.0


class GatewayUnderTest:
    """A running gateway, what reached its upstream, and the receipts of its calls.

    Its methods may be called from any thread. They block, but only for calls in progress.
    """

    def __init__(self, url: str, upstream: "MockUpstream", log: CallLog, loop: "_LoopThread") -> None:
        """Use `run_gateway`, or the fixture `hookgate_gateway`, to create one."""
        self.url, self.upstream_url = url, upstream.url
        self._recorded, self._log, self._loop = upstream.recorded, log, loop

    def ask(
        self,
        text: str,
        *,
        model: str = "gemini-3.8-flash",
        stream: bool = False,
        key: str = "test-key",
        **fields: Any,
    ) -> Answer:
        """Ask the model and return the answer, even if it is an error. `fields` are added to the request.

        `contents` among the fields replaces `text`. To test with a client of your own, give it `url`.
        """
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        body = {"contents": [{"role": "user", "parts": [{"text": text}]}], **fields}
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_SECONDS)
        try:
            connection.request(
                "POST",
                f"/v1beta/models/{model}:{verb}",
                json.dumps(body),
                {"Content-Type": "application/json", "x-goog-api-key": key},
            )
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, tuple(_events(data, headers)))

    @property
    def upstream_requests(self) -> list["RecordedRequest"]:
        """The last 1000 requests to the upstream, each with `method`, `path_qs`, `headers` and `body`."""
        return self._loop.call(lambda: list(self._recorded))

    @property
    def receipts(self) -> list[dict[str, Any]]:
        """The receipts of all calls in the order of their ends; waits for calls in progress.

        Raises TimeoutError if a call does not end within ten seconds.
        """
        return self._log.all()

    def receipt(self, answer: object) -> dict[str, Any]:
        """Return the receipt of the call with this answer: a response with headers, or the receipt's ID.

        Raises TypeError for an answer without the header x-hookgate-receipt, LookupError for one of another
        gateway.
        """
        return self._log.find(answer).receipt

    def reasons(self, answer: object) -> dict[str, str]:
        """Return the reasons of denials by event; under `gateway`, the reason of an error of its own."""
        return self._log.find(answer).reasons

    def assert_denied(self, answer: object, *, reason: str | None = None, hook: str | None = None) -> None:
        """Check that hooks denied the call or stopped the agent, with this text in a reason, by this hook."""
        __tracebackhide__ = True
        check_denied(self._log.find(answer), reason, hook)

    def assert_answered(self, answer: object) -> None:
        """Check that the model answered, that hooks blocked no part of it, and that no hook failed."""
        __tracebackhide__ = True
        check_answered(self._log.find(answer))

    def assert_hook(self, answer: object, hook: str, *, decision: str | None = None) -> None:
        """Check that the hook ran on the call without failing, and that it decided `decision` if given.

        Decisions are `allow`, `ask`, `deny`, `stop` and `answer`.
        """
        __tracebackhide__ = True
        check_hook(self._log.find(answer), hook, decision)

    def assert_not_sent(self, text: str) -> None:
        """Check that no body that reached the upstream contains the text, in a name or a value."""
        __tracebackhide__ = True
        check_absent(text, [request.body for request in self.upstream_requests])


@contextmanager
def run_gateway(
    hooks: Document | None = None,
    *,
    script: Document | None = None,
    config: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
) -> Iterator[GatewayUnderTest]:
    """Run a gateway while the block runs, before a mock upstream of its own. Both listen on free ports.

    `hooks` is a settings file or its content, `script` a script of the mock upstream or its content, and
    `config` has sections of hookgate.toml, for example `{"routes": {"files": "forward"}}`. Relative paths are
    relative to `folder`, by default the current one; there, hooks run whose settings are not in a file. The
    gateway's state is in a temporary folder.

    Raises SettingsError, ScriptError or ValueError, which name the mistake, and ModuleNotFoundError if the
    gateway is not installed.
    """
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory(prefix="hookgate-test-") as state, _LoopThread() as loop:
        given = _Given(Path(state), Path(folder or ".").resolve(), hooks, script, config or {})
        log = CallLog()
        with loop.running(_serve(given, log)) as (url, upstream):
            yield GatewayUnderTest(url, upstream, log, loop)


@dataclass(frozen=True, slots=True)
class _Given:
    """What `run_gateway` was given, and the folder for the gateway's state."""

    state: Path
    folder: Path
    hooks: Document | None
    script: Document | None
    config: Mapping[str, Any]

    def file(self, name: str, document: Document) -> Path:
        """Return the file of a document. Its content is written into the state folder, under `name`."""
        if not isinstance(document, Mapping):
            return self.folder / document
        file = self.state / name
        file.write_text(json.dumps(document), encoding="utf-8")
        return file


@asynccontextmanager
async def _serve(given: "_Given", log: CallLog) -> AsyncIterator[tuple[str, "MockUpstream"]]:
    """Serve upstream and gateway while the block runs; gives the gateway's base URL, and the upstream."""
    from hookgate.hooks.settings import SettingsSource  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy import mock_upstream, policy  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.app import serve_on  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.calls.gateway import Gateway  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config.reading import Sources  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.observe.receipts import make_receipt  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.observe.record import CallRecord  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.observe.usage import read_prices  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.upstream.client import Upstreams  # noqa: PLC0415  # see the module's docstring

    rules = (
        None if given.script is None else mock_upstream.load_script(given.file("script.json", given.script))
    )
    async with mock_upstream.run_mock_upstream(rules) as upstream:
        settings = _config(given.config, given.state, upstream.url)
        sources = []
        if given.hooks is not None:
            root = given.folder if isinstance(given.hooks, Mapping) else None
            sources.append(SettingsSource(given.file("settings.json", given.hooks), root=root))
        reloader = policy.load_policy(
            Sources(state=given.state, added=lambda: sources), prices=read_prices(settings.prices.file)
        )
        try:
            async with Upstreams(settings.upstream) as upstreams:
                gateway = Gateway(reloader, upstreams, settings)

                async def handle(request: Any) -> Any:
                    log.note_begin()
                    record = CallRecord(request_id=request.id)
                    try:
                        return await gateway.handle(request, record)
                    finally:
                        log.note_end(make_receipt(record), record.reasons)

                async with serve_on(handle, "127.0.0.1", 0, settings.limits) as url:
                    yield url, upstream
        finally:
            await reloader.close()


def _config(given: Mapping[str, Any], state: Path, upstream: str) -> "Config":
    """Return the configuration. Raises ValueError for a section that has no effect here."""
    from pydantic import ValidationError  # noqa: PLC0415  # see the module's docstring

    from hookgate.proxy.config import Config  # noqa: PLC0415  # see the module's docstring
    from hookgate.proxy.config.reading import describe_errors  # noqa: PLC0415  # see the module's docstring

    for section in given:
        if section not in _SECTIONS:
            raise ValueError(
                f"config: a gateway under test has no section {section!r}; "
                f"use {', '.join(sorted(_SECTIONS))}, or test a gateway that `hookgate serve` runs"
            )
    if (given.get("clients") or {}).get("issued_keys"):
        raise ValueError(
            "config: a gateway under test issues no keys, so clients.issued_keys cannot be set; "
            "test a gateway that `hookgate serve` runs"
        )
    origins = {"gemini": upstream, "vertex": upstream, "code_assist": upstream}
    sections = {
        **given,
        "hooks": {"state": state},
        "upstream": {**given.get("upstream", {}), **origins},
        # A stream that a test has left open must not delay the end of the test.
        "limits": {"drain_timeout": 1, **given.get("limits", {})},
    }
    try:
        return Config.model_validate(sections)
    except ValidationError as error:
        raise ValueError("\n".join(f"config{problem}" for problem in describe_errors(error))) from None


def _events(data: bytes, headers: Mapping[str, str]) -> Iterator[Any]:
    """Yield the JSON of an answer, or of each event of a stream; bytes that are not JSON are text."""
    if "event-stream" in headers.get("content-type", ""):
        lines = data.decode(errors="replace").splitlines()
        texts = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    else:
        texts = [data.decode(errors="replace")]
    for text in texts:
        try:
            yield json.loads(text)
        except ValueError:
            yield text


class _LoopThread:
    """An event loop in a thread, which runs one asynchronous context after another."""

    def __enter__(self) -> "_LoopThread":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="hookgate-under-test", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread, and return its result."""

        async def calling() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(calling(), self._loop).result(_SECONDS)

    @contextmanager
    def running(self, context: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter an asynchronous context in the thread, yield its value, and leave it at the end of the block.

        One task enters and leaves it, because timeouts and cancellation belong to a task.
        """
        __tracebackhide__ = True
        entered: Future[T] = Future()
        leave = asyncio.Event()

        async def hold() -> None:
            async with context as value:
                entered.set_result(value)
                await leave.wait()

        held = asyncio.run_coroutine_threadsafe(hold(), self._loop)
        either: list[Future[Any]] = [entered, held]
        wait(either, return_when=FIRST_COMPLETED)
        if not entered.done() and (failure := held.exception()) is not None:
            raise failure.with_traceback(None)  # a mistake of the test, which its message explains
        try:
            yield entered.result()
        finally:
            self._loop.call_soon_threadsafe(leave.set)
            held.result()
