"""Runs of tools, and functions whose every call is reported as one."""

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from hookgate.shim.decisions import Decision, Json, ShimError, ToolFailed
from hookgate.shim.driver import Driver


class CommonTool:
    """One run of a tool: what `Tool` and `SyncTool` have in common. Once entered, it may run with `args`."""

    def __init__(self, driver: Driver, name: str, args: Json, description: str | None = None) -> None:
        self._driver, self._conversation = driver, driver.conversation
        self._request = (name, args, description)
        self._reported = False
        self.name = name
        self.args: Json = args
        """The arguments, as rewritten by hooks."""
        self.after: Decision | None = None
        """The hooks' decision about the result, once it was reported."""

    @property
    def tail_tool_call(self) -> Json | None:
        """`{name, args}` of a tool that hooks want to run next; its result replaces this tool's."""
        return self.after.tail_tool_call if self.after else None

    def _unreported(self, error: BaseException | None) -> Exception | None:
        """Return the tool's own failure, or None if it was reported already or is not the tool's."""
        if self._reported or isinstance(error, ShimError):
            return None
        return error if isinstance(error, Exception) else None


class Tool(CommonTool):
    """A tool's run, to enter with `async with`."""

    async def result(self, value: Any) -> Any:
        """Report the tool's result, and return the version to pass to the model.

        Raises Stopped if a hook stops the agent.
        """
        self._reported = True
        try:
            return await self._driver.run(self._conversation.after_tool(self._run, value))
        finally:
            self.after = self._run.after

    async def failed(self, error: Exception) -> str | None:
        """Report the tool's failure and return the error message that the model may see.

        Returns None if hooks did not change it. Raises Stopped.
        """
        self._reported = True
        return await self._driver.run(self._conversation.after_failure(self._run, error))

    async def __aenter__(self) -> Self:
        """Ask the hooks whether the tool may run. Raises ToolDenied and Stopped."""
        self._run = await self._driver.run(self._conversation.before_tool(*self._request))
        self.args = self._run.args
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Report a failed tool. Raises ToolFailed if hooks change its error message, and Stopped."""
        if failure := self._unreported(error):
            message = await self.failed(failure)
            if message is not None:
                raise ToolFailed(message) from failure


class SyncTool(CommonTool):
    """A context manager for one run of a tool."""

    def result(self, value: Any) -> Any:
        """Report the tool's result, and return the version to pass to the model.

        Raises Stopped if a hook stops the agent.
        """
        self._reported = True
        try:
            return self._driver.wait(self._conversation.after_tool(self._run, value))
        finally:
            self.after = self._run.after

    def failed(self, error: Exception) -> str | None:
        """Report the tool's failure and return the error message that the model may see.

        Returns None if hooks did not change it. Raises Stopped.
        """
        self._reported = True
        return self._driver.wait(self._conversation.after_failure(self._run, error))

    def __enter__(self) -> Self:
        """Ask the hooks whether the tool may run. Raises ToolDenied and Stopped."""
        self._run = self._driver.wait(self._conversation.before_tool(*self._request))
        self.args = self._run.args
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Report a failed tool. Raises ToolFailed if hooks change its error message, and Stopped."""
        if failure := self._unreported(error):
            message = self.failed(failure)
            if message is not None:
                raise ToolFailed(message) from failure


def as_tool_run(driver: Driver, function: Callable[..., Any], name: str | None) -> Callable[..., Any]:
    """Wrap a function so that each call fires BeforeTool and AfterTool. Keeps its name and signature."""
    signature = inspect.signature(function)
    tool_name = name or function.__name__

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            call = _Call(signature, args, kwargs)
            async with Tool(driver, tool_name, call.by_name()) as tool:
                return await tool.result(await call.invoke(function, tool.args))

        return async_wrapper

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = _Call(signature, args, kwargs)
        with SyncTool(driver, tool_name, call.by_name()) as tool:
            return tool.result(call.invoke(function, tool.args))

    return wrapper


class _Call:
    """The arguments of one call, bound to the parameters of the function's signature."""

    def __init__(self, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
        """Bind the arguments. Raises TypeError for arguments that the function does not accept."""
        self._bound = signature.bind(*args, **kwargs)
        self._kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
        first = next(iter(self._kinds), None)
        self._self_name = first if first in ("self", "cls") else None

    def by_name(self) -> Json:
        """Return the arguments by name, as hooks see them: without `self`, and with `**kwargs` merged in."""
        by_name: Json = {}
        for name, value in self._bound.arguments.items():
            if self._kinds[name] is inspect.Parameter.VAR_KEYWORD:
                by_name |= value
            elif name != self._self_name:
                by_name[name] = value
        return by_name

    def invoke(self, function: Callable[..., Any], arguments: Json) -> Any:
        """Call the function with these arguments. Raises TypeError for one that it does not accept."""
        keywords = next(
            (name for name, kind in self._kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), None
        )
        for name, value in arguments.items():
            if name in self._kinds and name != keywords:
                self._bound.arguments[name] = value
            elif keywords is not None:
                self._bound.arguments[keywords] = {**self._bound.arguments.get(keywords, {}), name: value}
            else:
                raise TypeError(
                    f"{function.__name__}() has no parameter {name!r}, which a hook added to its arguments"
                )
        return function(*self._bound.args, **self._bound.kwargs)
