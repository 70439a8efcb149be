"""Runtime hooks: a Python callable in this process, `action(input) -> output | None`, sync or async."""

import asyncio
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hookgate.hooks.document import Document
from hookgate.hooks.errors import HookError, SettingsError
from hookgate.hooks.output import Output, read_output
from hookgate.hooks.settings import Hook, RuntimeConfig

Action = Callable[[dict[str, Any]], Any]


def load_action(hook: Hook, config: RuntimeConfig) -> Action:
    """The callable a runtime hook names: `package.module:function`, or a file relative to its project.

    Raises SettingsError when there is none.
    """
    target, _, function = config.action.rpartition(":")
    try:
        module = _load_file(hook.root / target) if target.endswith(".py") else importlib.import_module(target)
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
    name = f"hookgate_runtime_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    spec.loader.exec_module(module)
    return module


async def run_action(hook: Hook, action: Action, document: Document) -> Output | None:
    """Run one runtime hook: async in the loop, sync in a thread. Raises HookError.

    A thread cannot be ended: a sync hook that exceeds its time fails, and its thread runs on.
    """
    try:
        async with asyncio.timeout(hook.timeout):
            if inspect.iscoroutinefunction(action):
                value = await action(document.value())
            else:
                value = await asyncio.to_thread(action, document.value())
    except TimeoutError:
        raise HookError(f"timed out after {hook.timeout * 1000:g} ms") from None
    except Exception as error:  # a hook may raise anything; what follows is its on_error's to say
        raise HookError(f"raised {error!r}") from None
    return read_output(value)
