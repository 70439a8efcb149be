"""Functions whose every call is a tool's run."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from hookgate.shim.decisions import Json
from hookgate.shim.driver import Driver
from hookgate.shim.tools import SyncTool, Tool


def guarded(driver: Driver, function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    """The function, its calls told to hooks before and after. Its name, signature and text stay."""
    signature = inspect.signature(function)
    tool_name = name or function.__name__

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            call = _Call(signature, args, kwargs)
            async with Tool(driver, tool_name, call.named()) as tool:
                return await tool.result(await call.made(function, tool.args))

        return awaited

    @functools.wraps(function)
    def waited(*args: Any, **kwargs: Any) -> Any:
        call = _Call(signature, args, kwargs)
        with SyncTool(driver, tool_name, call.named()) as tool:
            return tool.result(call.made(function, tool.args))

    return waited


class _Call:
    """The arguments of one call, by the names that the signature gives them."""

    def __init__(self, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
        """Raises TypeError for arguments that the function does not take."""
        self._bound = signature.bind(*args, **kwargs)
        self._kinds = {name: each.kind for name, each in signature.parameters.items()}
        first = next(iter(self._kinds), None)
        self._owner = first if first in ("self", "cls") else None

    def named(self) -> Json:
        """What hooks see: no object that a method belongs to, and keywords beside the others."""
        named: Json = {}
        for name, value in self._bound.arguments.items():
            if self._kinds[name] is inspect.Parameter.VAR_KEYWORD:
                named |= value
            elif name != self._owner:
                named[name] = value
        return named

    def made(self, function: Callable[..., Any], named: Json) -> Any:
        """Call the function with these arguments. Raises TypeError for one that it does not take."""
        keywords = next(
            (name for name, kind in self._kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), None
        )
        for name, value in named.items():
            if name in self._kinds and name != keywords:
                self._bound.arguments[name] = value
            elif keywords is not None:
                self._bound.arguments[keywords] = {**self._bound.arguments.get(keywords, {}), name: value}
            else:
                raise TypeError(f"{function.__name__}() takes no argument {name!r}, which a hook gave it")
        return function(*self._bound.args, **self._bound.kwargs)
