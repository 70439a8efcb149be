"""`hookgate receipt ID`: what became of a call, asked of the gateway's admin listener."""

import asyncio
import json
import re
import sys
from http.client import HTTPConnection
from pathlib import Path

from hookgate.proxy.admin.access import admin_token_source, find_token
from hookgate.proxy.config import AdminSettings
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import describe_os_error
from hookgate.proxy.observe.logs import escape_controls

_SECONDS = 10.0
_ID = re.compile(r"[0-9a-f]{32}")


async def show_receipt(receipt: str, admin: str | None, configured: AdminSettings, state: Path) -> int:
    """Print the receipt as JSON. `admin` is where to ask instead of the configured address.

    Without a configured token the one is shown that a gateway of this machine keeps in its `state` folder.
    Raises ValueError, which tells what to do.
    """
    path, address = f"/receipts/{check_receipt_id(receipt)}", _address(admin, configured)
    token = admin_token_source(configured) or find_token(state, address)
    status, body = await asyncio.to_thread(_get, address, path, token)
    if status != 200:
        print(f"hookgate: {escape_controls(body['error']['message'])}", file=sys.stderr)
        return 1
    print(json.dumps(body, indent=2, ensure_ascii=False))
    return 0


def check_receipt_id(receipt: str) -> str:
    """A receipt's id as it was typed. Raises ValueError for what is none."""
    if not _ID.fullmatch(receipt):
        raise ValueError(
            f"{receipt!r} is no receipt: it has 32 hexadecimal digits; the header is x-hookgate-receipt"
        )
    return receipt


def _address(given: str | None, configured: AdminSettings) -> tuple[str, int]:
    """Where the admin listener is; a URL will do as well, as the gateway's log names one."""
    address = configured.address if given is None else given.removeprefix("http://").rstrip("/")
    if address is None:
        raise ValueError("the admin listener is off; name another gateway's with --admin HOST:PORT")
    try:
        return host_and_port(address)
    except ValueError:
        raise ValueError(f"--admin: {given!r} has to be HOST:PORT, such as 127.0.0.1:9787") from None


def _get(address: tuple[str, int], path: str, token: str | None) -> tuple[int, dict[str, dict[str, str]]]:
    connection = HTTPConnection(*address, timeout=_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, ValueError) as error:
        told, where = (
            describe_os_error(error) if isinstance(error, OSError) else str(error),
            ":".join(map(str, address)),
        )
        raise ValueError(
            f"no gateway answers at {where}: {told}; start it, or name its admin listener with --admin"
        ) from None
    finally:
        connection.close()
