"""What a caller of the shim may meet. One base class: `except ShimError` is everything."""

from hookgate.shim.decisions import Decision


class ShimError(Exception):
    """Something that the shim has to tell."""


class EventRefused(ShimError):  # noqa: N818  # what happened, not what is wrong
    """The gateway did not take an event: `status` is HTTP's, such as 403 for a key it does not know."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the gateway answered {status}: {message}")
        self.status, self.message = status, message


class Blocked(ShimError):  # noqa: N818  # a decision
    """A hook decided against going on. The text is the reason; `decision` is all that was said."""

    def __init__(self, reason: str, decision: Decision) -> None:
        super().__init__(reason)
        self.reason, self.decision = reason, decision


class Denied(Blocked):
    """A hook denied the session, the prompt, or the last answer that it may be asked about."""


class ToolDenied(Denied):
    """A tool must not run. The text is what the model is told in the result's place."""

    def __init__(self, reason: str, decision: Decision) -> None:
        super().__init__(reason, decision)
        self.args = (tool_error(reason),)


class Stopped(Blocked):
    """A hook said `continue: false`: the agent stops, until its next turn."""


class ToolFailed(ShimError):  # noqa: N818  # what happened
    """A tool failed, and hooks changed what is told of it. The text is what the model may see."""


def tool_error(reason: str) -> str:
    """What the model is told of a tool that was denied."""
    return f"Tool execution blocked: {reason}"
