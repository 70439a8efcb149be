"""What a trial of hooks needs of the gateway."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.policy_environment import AccessTokens
from hookgate.hooks.trust import TrustStore
from hookgate.proxy.audit.reading import CallDetail
from hookgate.proxy.observe.usage import Prices
from hookgate.translator.fields import JsonObject


@dataclass(frozen=True, slots=True)
class HookTrials:
    """Runs hooks on recorded calls, in engines of their own: no count of a limit and no session changes."""

    reloader: EngineReloader
    state: Path
    prices: Prices
    access_tokens: AccessTokens

    async def run(self, detail: CallDetail, hook: str) -> JsonObject:
        """Run the hooks in force on a call, as `compare_call` describes. Raises ApiError."""
        # Imported only for a trial: they need libraries that a gateway without such policies does not load.
        from hookgate.proxy.replay.replaying import replaying_engine  # noqa: PLC0415  # see above
        from hookgate.proxy.replay.trying import compare_call  # noqa: PLC0415  # see above

        make = partial(
            replaying_engine,
            prices=self.prices,
            trust_check=TrustStore(self.state).refusal,
            access_tokens=self.access_tokens,
        )
        return await compare_call(detail, self.reloader.current.configuration, hook, make, self.prices)
