"""What all calls of one gateway share."""

from dataclasses import dataclass, field
from functools import cached_property

from hookgate.proxy.bypass import Bypasses
from hookgate.proxy.config import Config
from hookgate.proxy.sessions import Sessions
from hookgate.proxy.sources import sources_of
from hookgate.proxy.transcripts import Transcripts
from hookgate.proxy.upstream import Upstreams


@dataclass(frozen=True)
class House:
    """The upstreams, the settings, and what is remembered of sessions."""

    upstreams: Upstreams
    config: Config
    sessions: Sessions = field(default_factory=Sessions)
    bypasses: Bypasses = field(default_factory=Bypasses)

    @cached_property
    def transcripts(self) -> Transcripts:
        """What was said in each session, where that is kept."""
        return Transcripts(self.config.transcripts, sources_of(self.config.hooks).state)
