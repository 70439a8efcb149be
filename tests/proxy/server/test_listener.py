"""The addresses on which a gateway listens."""

import pytest

from hookgate.proxy.server.listener import CLIENTS, bind_listeners


async def test_an_address_of_one_network_interface_keeps_its_scope() -> None:
    """The kernel takes a link-local address without one for an invalid argument."""
    with pytest.raises(OSError, match="Cannot assign requested address"):
        await bind_listeners("fe80::1%lo", 0, CLIENTS)
