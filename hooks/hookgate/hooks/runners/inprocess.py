"""Hooks that run in this process: Python callables and built-in policies."""

import asyncio
import contextlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import logging
import sys
import threading
import traceback
import types
from collections.abc import Awaitable, Callable, Generator
from difflib import get_close_matches
from pathlib import Path
from types import CodeType
from typing import Any, Protocol, runtime_checkable

from hookgate.hooks.clock import StallAwareTimeout, StallClock
from hookgate.hooks.errors import (
    HookError,
    HookTimeoutError,
    HookUnavailableError,
    Problem,
    SettingsError,
    is_exhaustion,
)
from hookgate.hooks.events.base import Document
from hookgate.hooks.output import Output, read_output
from hookgate.hooks.policy_environment import Builtins, Policy, PolicyEnvironment
from hookgate.hooks.session import Screen, SessionContext
from hookgate.hooks.settings import BuiltinConfig, Hook, RuntimeConfig

Action = Callable[[dict[str, Any]], Any]


def load_action(hook: Hook, config: RuntimeConfig, files: dict[Path, Any]) -> Action:
    """Load the callable of a runtime hook: `package.module:function`, or `file.py:function` in its project.

    `files` caches the modules loaded from files, so that the hooks of one file share its globals. Raises
    SettingsError if the callable cannot be loaded.
    """
    target, _, function = config.action.rpartition(":")

    def settings_error(message: str) -> SettingsError:
        problem = f"the runtime hook {hook.name!r}: {target}{message}"
        return SettingsError([Problem(hook.source, problem, hook.line)])

    path = (hook.root / target).resolve() if target.endswith(".py") else None
    if path is not None and not path.is_file():
        raise settings_error(f" does not exist in {hook.root}; check the path")
    try:
        if path is None:
            module = importlib.import_module(target)
        else:
            module = files[path] = files.get(path) or _load_file(path)
    except Exception as error:  # a module may raise anything while it is imported
        raise settings_error(f" cannot be imported: {_import_problem(error, hook, config.action)}") from None
    action = getattr(module, function, None)
    if not callable(action):
        names = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        near = get_close_matches(function, names, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "check the name"
        raise settings_error(f" has no function {function!r}; {remedy}")
    if not _accepts_event(action):
        raise settings_error(
            f": {function} must accept one argument, the event; declare it as `def {function}(event)`"
        )
    return action  # type: ignore[no-any-return]  # getattr's Any, checked to be callable


def _import_problem(error: Exception, hook: Hook, action: str) -> str:
    """Describe why the module of an action cannot be imported, with a remedy for the usual causes."""
    module, _, function = action.rpartition(":")
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}: {error.msg}"
    file = f"{module.replace('.', '/')}.py"
    if isinstance(error, ModuleNotFoundError) and not module.endswith(".py") and (hook.root / file).is_file():
        return f"{error!r}; did you mean './{file}:{function}'?"
    return repr(error)


def _accepts_event(action: Callable[..., Any]) -> bool:
    """Return whether the callable can be called with one argument, as far as its signature is known."""
    try:
        signature = inspect.signature(action)
    except (TypeError, ValueError):  # some callables that are written in C have no signature
        return True
    try:
        signature.bind({})
    except TypeError:
        return False
    return True


class _UncachedLoader(importlib.machinery.SourceFileLoader):
    """Compiles a file as it is now. Bytecode in `__pycache__` can be outdated, or come with a project."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_file(path: Path) -> Any:
    name = f"hookgate_runtime_{abs(hash(path))}"
    loader = _UncachedLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None or not path.is_file():
        raise FileNotFoundError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    loader.exec_module(module)
    return module


log = logging.getLogger("hookgate.hooks")

MAX_THREADS = 256
"""The maximum number of concurrent threads of one hook, including those that have timed out."""


class RuntimeRunner:
    """Runs a runtime hook: an async function in the event loop, any other function in a thread.

    A thread cannot be ended: a function that exceeds its time limit fails, but its thread continues.
    MAX_THREADS limits the threads of a function that hangs.
    """

    def __init__(self, hook: Hook, action: Action) -> None:
        self._hook, self._action = hook, action
        self._clock = StallClock()
        self._threads = 0
        self._call = action if inspect.iscoroutinefunction(action) else self._call_function

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        output = await run_action(self._hook, self._call, event, document.value(), self._clock)
        document.return_copies()
        return output

    async def close(self) -> None:
        """Do nothing: a callable has no resources to close."""

    async def _call_function(self, value: dict[str, Any]) -> Any:
        if self._threads >= MAX_THREADS:
            raise HookUnavailableError(
                "overload", f"already runs in {MAX_THREADS} threads; some of them may be hanging"
            )
        result = await self._call_in_thread(value)
        # An object with an async __call__, for example, returns an awaitable.
        return await result if inspect.isawaitable(result) else result

    async def _call_in_thread(self, value: dict[str, Any]) -> Any:
        """Call a function in a new daemon thread.

        In a thread pool, a few functions that hang would block all others, including name resolution, and
        keep the gateway from stopping.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def resolve(outcome: tuple[Any, BaseException | None]) -> None:
            self._threads -= 1
            if not future.done():  # it is cancelled after a timeout
                future.set_result(outcome)

        def run() -> None:
            outcome: tuple[Any, BaseException | None]
            try:
                outcome = self._action(value), None
            except BaseException as error:  # passed to the caller
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop may have been closed
                loop.call_soon_threadsafe(resolve, outcome)

        threading.Thread(target=run, name="hookgate-hook", daemon=True).start()
        self._threads += 1
        result, error = await future
        if error is not None:  # not re-raised: the event loop cannot handle StopIteration or SystemExit
            try:
                raise _hook_error(error)
            finally:
                error.__traceback__ = None  # it refers to the input, and to the future that holds the error
        return result


async def run_action(
    hook: Hook,
    action: Callable[[dict[str, Any]], Awaitable[Any]],
    event: str,
    value: dict[str, Any],
    clock: StallClock,
) -> Output | None:
    """Run a callable on an input within the hook's timeout, and return its validated output.

    `clock` measures the time, unless the callable returns without waiting for anything. Raises HookError if
    the callable fails, times out, or returns an invalid output.
    """
    limit: StallAwareTimeout | None = None
    try:
        coroutine = action(value).__await__()
        try:
            waits_for = next(coroutine)
        except StopIteration as done:  # it did not wait for anything, like most policies
            output = done.value
        else:
            limit = StallAwareTimeout(clock, hook.timeout)
            async with limit:
                output = await _resume(coroutine, waits_for)
    except HookError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _hook_error(error) from None  # the hook raised it itself: the call has not been cancelled
    except (Exception, SystemExit) as error:  # a hook may raise anything
        if limit is not None and limit.expired():
            raise HookTimeoutError(hook.timeout) from None
        raise _hook_error(error) from None
    return None if output is None else read_output(output, event)


@types.coroutine
def _resume(coroutine: Generator[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Continue a coroutine that has yielded `waits_for` already, and return its result."""
    try:
        while True:
            try:
                result = yield waits_for
            except BaseException as error:  # such as a cancellation
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(result)
    except StopIteration as done:
        return done.value


def _hook_error(error: BaseException) -> HookError:
    """Return the failure for an exception of a callable, which shares the gateway's resources."""
    message = f"raised {error!r}{_location_of(error)}"
    return (
        HookUnavailableError("no resources", message)
        if is_exhaustion(error)
        else HookError(message, "exception")
    )


def _location_of(error: BaseException) -> str:
    """Return the file and line that raised the exception, or an empty string if they are unknown."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" in {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


@runtime_checkable
class Screening(Protocol):
    """A policy that filters streamed answers itself, and decides what to hold back."""

    def screen(self, session: SessionContext) -> Screen:
        """Return a screen for one answer."""


@runtime_checkable
class Accounting(Protocol):
    """A policy that counts what calls have used when they end."""

    def count_use(self, session: SessionContext) -> None:
        """Count what the current call uses, once that is known: an earlier call judged its request."""


@runtime_checkable
class Closing(Protocol):
    """A policy that has resources to close, such as connections."""

    async def close(self) -> None:
        """Close them."""


class BuiltinRunner:
    """Runs a built-in policy in the event loop. Policies use threads for slow work, such as long texts."""

    def __init__(
        self, hook: Hook, config: BuiltinConfig, builtins: Builtins, environment: PolicyEnvironment
    ) -> None:
        """Create the policy. Raises SettingsError if its name is unknown or its options are bad."""
        self._hook, self._clock = hook, StallClock()
        self._policy: Any = _create_policy(hook, config, builtins, environment)
        screens = isinstance(self._policy, Screening)
        if screens is not (hook.stream == "held"):
            problem = (
                "decides itself what to hold back of a stream" if screens else "cannot hold back a stream"
            )
            raise _settings_error(hook, f"this policy {problem}; remove the key `stream`")

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        async def act(value: dict[str, Any]) -> Any:
            try:
                result = self._policy(value, session)
                return await result if inspect.isawaitable(result) else result
            except HookError:
                raise
            except Exception as error:
                if not is_exhaustion(error):
                    log.exception("the policy %r failed inside hookgate; please report this", self._hook.name)
                raise

        return await run_action(self._hook, act, event, document.view(), self._clock)

    def count_use(self, session: SessionContext) -> None:
        """Let the policy count what the current call uses, if it counts that of calls."""
        if isinstance(self._policy, Accounting):
            self._policy.count_use(session)

    def screen(self, session: SessionContext) -> Screen:
        """Return the policy's screen for one answer."""
        screening: Screening = self._policy
        return screening.screen(session)

    async def close(self) -> None:
        """Close what the policy has opened."""
        if isinstance(self._policy, Closing):
            await self._policy.close()


def _create_policy(
    hook: Hook, config: BuiltinConfig, builtins: Builtins, environment: PolicyEnvironment
) -> Policy:
    factory = builtins.get(config.builtin)
    if factory is None:
        near = get_close_matches(config.builtin, builtins, n=1)
        known = f"known policies: {', '.join(sorted(builtins)) or 'none'}"
        remedy = f"{known}; did you mean {near[0]}?" if near else known
        raise _settings_error(hook, f"there is no policy {config.builtin!r}; {remedy}")
    try:
        return factory(config.options, environment)
    except ValueError as error:
        raise _settings_error(hook, f"options: {error}") from None


def _settings_error(hook: Hook, message: str) -> SettingsError:
    where = f"the {hook.event or 'builtin'} hook {hook.name!r}"
    return SettingsError([Problem(hook.source, f"{where}: {message}", hook.line)])
