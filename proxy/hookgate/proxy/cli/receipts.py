"""`hookgate receipt ID`: shows the receipt of a call, from the gateway's admin listener."""

import argparse
import asyncio
import json
import sys
from http.client import HTTPConnection

from hookgate.proxy.admin.access import admin_token_source, find_token
from hookgate.proxy.config import AdminSettings, read_config
from hookgate.proxy.config.reading import state_folder
from hookgate.proxy.config.values import host_and_port
from hookgate.proxy.errors import describe_os_error
from hookgate.proxy.observe.logs import escape_controls
from hookgate.proxy.observe.record import CALL_ID
from hookgate.translator.fields import JsonObject

_SECONDS = 10.0


async def run_receipt(args: argparse.Namespace) -> int:
    """Print the receipt as JSON, from the listener that `--admin` names, by default the configured one.

    If no token is configured, the request has the token that a gateway on this machine keeps in its state
    folder. Returns 1 if there is no such receipt, else 0. Raises ValueError, whose message contains a remedy.
    """
    config = read_config(vars(args)).config
    path, address = f"/receipts/{check_receipt_id(args.receipt)}", admin_address(args.admin, config.admin)
    token = admin_token_source(config.admin) or find_token(state_folder(config.hooks), address)
    status, body = await asyncio.to_thread(ask_admin, address, path, token)
    if status != 200:
        print(f"hookgate: {escape_controls(body['error']['message'])}", file=sys.stderr)
        return 1
    print(json.dumps(body, indent=2, ensure_ascii=False))
    return 0


def check_receipt_id(receipt: str) -> str:
    """Check and return the ID of a receipt. Raises ValueError if it is invalid."""
    if not CALL_ID.fullmatch(receipt):
        raise ValueError(
            f"{receipt!r} is not a receipt ID: use the 32 hexadecimal digits of the header x-hookgate-receipt"
            " (`hookgate audit show` also accepts the first of them)"
        )
    return receipt


def admin_address(flag: str | None, configured: AdminSettings) -> tuple[str, int]:
    """Return the address of the admin listener. `flag` may be a URL, as in the gateway's log.

    Raises ValueError if the listener is off, or if `flag` is invalid.
    """
    address = configured.address if flag is None else flag.removeprefix("http://").rstrip("/")
    if address is None:
        raise ValueError("the admin listener is off; set the address of another one with --admin HOST:PORT")
    try:
        return host_and_port(address)
    except ValueError:
        raise ValueError(f"--admin: {flag!r} must be HOST:PORT, such as 127.0.0.1:9787") from None


def ask_admin(address: tuple[str, int], path: str, token: str | None) -> tuple[int, JsonObject]:
    """Return the status and the JSON that the admin listener answers.

    Raises ValueError if it cannot be reached.
    """
    connection = HTTPConnection(*address, timeout=_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, ValueError) as error:
        problem, where = (
            describe_os_error(error) if isinstance(error, OSError) else str(error),
            ":".join(map(str, address)),
        )
        raise ValueError(
            f"no gateway answers at {where}: {problem}; start it, or set its admin listener with --admin"
        ) from None
    finally:
        connection.close()
