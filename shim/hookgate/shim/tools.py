"""One run of a tool, for asynchronous and for synchronous agents."""

from types import TracebackType
from typing import Any, Self

from hookgate.shim.decisions import Decision, Json
from hookgate.shim.driver import Driver
from hookgate.shim.errors import ShimError, ToolFailed


class CommonTool:
    """One run of a tool, to enter with `with` or `async with`: it may run with `args`."""

    def __init__(self, driver: Driver, name: str, args: Json, description: str | None = None) -> None:
        self._driver, self._conversation = driver, driver.conversation
        self._asking = (name, args, description)
        self._settled = False
        self.name = name
        self.args: Json = args
        """The arguments, as hooks left them."""
        self.after: Decision | None = None
        """What hooks said to the result, once it was given."""

    @property
    def tail_tool_call(self) -> Json | None:
        """`{name, args}` of a tool that hooks want run now, whose result shall take this one's place."""
        return self.after.tail_tool_call if self.after else None

    def _unsettled(self, error: BaseException | None) -> Exception | None:
        """The tool's own failure, which hooks have not heard of yet."""
        if self._settled or isinstance(error, ShimError):
            return None
        return error if isinstance(error, Exception) else None


class Tool(CommonTool):
    """A tool's run, to enter with `async with`."""

    async def result(self, value: Any) -> Any:
        """What the model shall see of the tool's result: replaced, hidden or extended. Raises Stopped."""
        self._settled = True
        try:
            return await self._driver.run(self._conversation.after_tool(self._run, value))
        finally:
            self.after = self._run.after

    async def failed(self, error: Exception) -> str | None:
        """What the model shall see of the tool's failure; None for the error as it is. Raises Stopped."""
        self._settled = True
        return await self._driver.run(self._conversation.after_failure(self._run, error))

    async def __aenter__(self) -> Self:
        """Raises ToolDenied and Stopped."""
        self._run = await self._driver.run(self._conversation.before_tool(*self._asking))
        self.args = self._run.args
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Tell hooks of a failed tool. Raises ToolFailed where they change what is told of it."""
        if failure := self._unsettled(error):
            told = await self.failed(failure)
            if told is not None:
                raise ToolFailed(told) from failure


class SyncTool(CommonTool):
    """A tool's run, to enter with `with`."""

    def result(self, value: Any) -> Any:
        """What the model shall see of the tool's result: replaced, hidden or extended. Raises Stopped."""
        self._settled = True
        try:
            return self._driver.wait(self._conversation.after_tool(self._run, value))
        finally:
            self.after = self._run.after

    def failed(self, error: Exception) -> str | None:
        """What the model shall see of the tool's failure; None for the error as it is. Raises Stopped."""
        self._settled = True
        return self._driver.wait(self._conversation.after_failure(self._run, error))

    def __enter__(self) -> Self:
        """Raises ToolDenied and Stopped."""
        self._run = self._driver.wait(self._conversation.before_tool(*self._asking))
        self.args = self._run.args
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        """Tell hooks of a failed tool. Raises ToolFailed where they change what is told of it."""
        if failure := self._unsettled(error):
            told = self.failed(failure)
            if told is not None:
                raise ToolFailed(told) from failure
