"""`hookgate receipt ID`: what became of a call, asked of the gateway's admin listener."""

import asyncio
import json
import re
import sys
from http.client import HTTPConnection

from hookgate.proxy.config import read_config
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.panel.tokens import token_of

_SECONDS = 10.0
_ID = re.compile(r"[0-9a-f]{32}")


async def show(receipt: str, admin: str | None) -> int:
    """Print the receipt as JSON. Raises ValueError or OSError, which tell what to do."""
    if not _ID.fullmatch(receipt):
        raise ValueError(
            f"{receipt!r} is no receipt: it has 32 hexadecimal digits; the header is x-hookgate-receipt"
        )
    configured = read_config({}).config.admin
    address, token = admin or configured.address, token_of(configured)
    if address is None:
        raise ValueError("the admin listener is off; name another gateway's with --admin HOST:PORT")
    status, body = await asyncio.to_thread(_get, address, f"/receipts/{receipt}", token)
    if status != 200:
        print(f"hookgate: {body['error']['message']}", file=sys.stderr)
        return 1
    print(json.dumps(body, indent=2, ensure_ascii=False))
    return 0


def _get(address: str, path: str, token: str | None) -> tuple[int, dict[str, dict[str, str]]]:
    connection = HTTPConnection(*host_and_port(address), timeout=_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no gateway answers at {address}: {error}; start it, or name its admin listener with --admin"
        ) from None
    finally:
        connection.close()
