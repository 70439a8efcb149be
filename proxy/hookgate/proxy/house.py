"""What all calls of one gateway share."""

from dataclasses import dataclass, field

from hookgate.proxy.bypass import Bypasses
from hookgate.proxy.config import Config
from hookgate.proxy.sessions import Sessions
from hookgate.proxy.upstream import Upstreams


@dataclass(frozen=True, slots=True)
class House:
    """The upstreams, the settings, and what is remembered of sessions."""

    upstreams: Upstreams
    config: Config
    sessions: Sessions = field(default_factory=Sessions)
    bypasses: Bypasses = field(default_factory=Bypasses)
