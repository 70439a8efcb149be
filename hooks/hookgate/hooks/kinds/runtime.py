"""Runtime hooks: a Python callable in this process, `action(input) -> output | None`, sync or async."""

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hookgate.hooks.clock import OwnLimit, StallClock
from hookgate.hooks.document import Document
from hookgate.hooks.errors import HookError, HookUnavailableError, SettingsError
from hookgate.hooks.exhaustion import is_exhaustion
from hookgate.hooks.output import Output, read_output
from hookgate.hooks.session import Session
from hookgate.hooks.settings import Hook, RuntimeConfig

Action = Callable[[dict[str, Any]], Any]


def load_action(hook: Hook, config: RuntimeConfig, files: dict[Path, Any]) -> Action:
    """The callable a runtime hook names: `package.module:function`, or a file relative to its project.

    `files` keeps what was loaded from files, so that the hooks of one file share its globals. Raises
    SettingsError when there is none.
    """
    target, _, function = config.action.rpartition(":")
    try:
        if target.endswith(".py"):
            path = (hook.root / target).resolve()
            module = files[path] = files.get(path) or _load_file(path)
        else:
            module = importlib.import_module(target)
    except Exception as error:  # a module may raise anything while it is imported
        raise SettingsError(
            f"{hook.source}: the runtime hook {hook.name!r}: {target} cannot be imported: {error!r}"
        ) from None
    action = getattr(module, function, None)
    if not callable(action):
        raise SettingsError(
            f"{hook.source}: the runtime hook {hook.name!r}: {target} has no function {function!r}"
        )
    return action  # type: ignore[no-any-return]  # getattr's Any, checked to be callable


def _load_file(path: Path) -> Any:
    name = f"hookgate_runtime_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    spec.loader.exec_module(module)
    return module


MAX_THREADS = 256
"""Threads of one hook at once, those among them whose time is over and that run on."""


class RuntimeRunner:
    """A runtime hook: async in the loop, sync in a thread.

    A thread cannot be ended: a sync hook that exceeds its time fails, and its thread runs on. MAX_THREADS
    keeps calls on which a hook hangs from filling the process with threads.
    """

    def __init__(self, hook: Hook, action: Action) -> None:
        self._hook, self._action = hook, action
        self._clock = StallClock()
        self._threads = 0

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        return await run_action(self._hook, self._result, event, document, self._clock)

    async def close(self) -> None:
        """A callable keeps nothing."""

    async def _result(self, value: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self._action):
            return await self._action(value)
        if self._threads >= MAX_THREADS:
            raise HookUnavailableError("overload", f"runs in {MAX_THREADS} threads already; some may hang")
        result = await self._in_thread(value)
        return (
            await result if inspect.isawaitable(result) else result
        )  # such as an object with async __call__

    async def _in_thread(self, value: dict[str, Any]) -> Any:
        """Call a plain function in a thread of its own.

        A pool would let a few functions that hang block all others, name resolution included, and keep the
        gateway from stopping. A daemon thread takes nothing with it but itself.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def settle(outcome: tuple[Any, BaseException | None]) -> None:
            self._threads -= 1
            if not ended.done():  # else its time was up
                ended.set_result(outcome)

        def run() -> None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = self._action(value), None
            except BaseException as error:  # whatever it is, it belongs to the one who waits
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
                loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=run, name="hookgate-hook", daemon=True).start()
        self._threads += 1
        result, raised = await ended
        if raised is not None:  # told, not raised again: StopIteration or SystemExit would upset the loop
            raise _raised(raised)
        return result


async def run_action(
    hook: Hook,
    action: Callable[[dict[str, Any]], Awaitable[Any]],
    event: str,
    document: Document,
    clock: StallClock,
) -> Output | None:
    """The output of one run, whose time `clock` measures. Raises HookError."""
    value = document.value()
    limit = OwnLimit(clock, hook.timeout)
    try:
        async with limit:
            value = await action(value)
    except HookError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _raised(error) from None  # the hook's own, which must not look as if the call was cancelled
    except (Exception, SystemExit) as error:  # a hook may raise anything; the rest is its on_error's to say
        if limit.expired():
            raise HookError(f"timed out after {hook.timeout * 1000:g} ms") from None
        raise _raised(error) from None
    return read_output(value, event)


def _raised(error: BaseException) -> HookError:
    """Return the failure of a callable, which shares descriptors, threads and memory with the gateway."""
    message = f"raised {error!r}"
    return HookUnavailableError("no resources", message) if is_exhaustion(error) else HookError(message)
