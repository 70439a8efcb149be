"""The access tokens of the gateway's credentials, for policies that call Google's services."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from hookgate.hooks import HookError
from hookgate.proxy.config import CredentialSettings
from hookgate.proxy.errors import ApiError

if TYPE_CHECKING:
    from hookgate.proxy.upstream.client import Upstreams


class PolicyTokens:
    """The access tokens by the names of their credentials.

    The settings of hooks are loaded before the upstreams are open, which refresh the tokens.
    """

    def __init__(self, credentials: Mapping[str, CredentialSettings]) -> None:
        self.names: Collection[str] = [name for name, each in credentials.items() if each.has_tokens]
        """The names of the credentials that have access tokens."""
        self.upstreams: Upstreams | None = None
        """The client for the upstreams, once it is open."""

    async def get(self, name: str) -> str:
        """Return a valid token. Raises HookError if there is none in time."""
        if self.upstreams is None:
            raise HookError("has no access token, because the gateway is not running")
        try:
            return await self.upstreams.access_token(name)
        except ApiError:
            raise HookError(
                f"has no access token of the credential {name!r}; see the gateway's log"
            ) from None
