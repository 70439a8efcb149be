"""How calls end, as records, metrics and the audit name it."""

from typing import Literal, get_args

CallOutcome = Literal[
    "answered", "blocked", "denied", "stopped", "synthetic", "refused", "failed", "left", "interrupted"
]
"""How a call ended: answered by the model, with tool calls or answers that hooks blocked (`blocked`) or
without; denied, stopped or answered by hooks; refused by hookgate; failed with an error of the upstream; left
by its client, which disconnected; or interrupted by a gateway that stopped."""

OUTCOMES: tuple[str, ...] = get_args(CallOutcome)

GUARDED = ("denied", "stopped", "blocked")
"""The outcomes that hooks decided against the client."""

JUDGED = frozenset({"answered", "synthetic", *GUARDED})
"""The outcomes that hooks can change."""

INCIDENTS = frozenset({"refused", "failed", *GUARDED})
"""The outcomes that somebody may want to look at."""
