"""The admin token: as it is configured, or one that a gateway makes for as long as it runs."""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookgate.proxy.config import Admin, ConfigError
from hookgate.proxy.config.values import admin_token, host_and_port
from hookgate.proxy.panel.access import is_loopback

log = logging.getLogger("hookgate")


def token_of(settings: Admin) -> str | None:
    """The configured token, which operators have to show; None where none is. Raises ConfigError."""
    if settings.token is not None:
        return settings.token.get_secret_value()
    if settings.token_file is None:
        return None
    try:
        return admin_token(settings.token_file.read_text(encoding="utf-8").strip())
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}; check the path"
    except ValueError as error:
        wrong = str(error)
    raise ConfigError([f"admin.token_file: {settings.token_file}: {wrong}"])


@contextmanager
def made_token(state: Path, port: int) -> Iterator[tuple[str, Path | None]]:
    """A new token, and the file that holds it while the block runs; None when it cannot be kept.

    It is another one at each start: who has once read it has nothing later on.
    """
    token, path = secrets.token_urlsafe(32), _file(state, port)
    try:
        _write(path, token)
    except OSError as error:
        log.warning(
            "the admin token cannot be kept in %s: %s; set admin.token_file, or another folder with --state",
            path,
            error.strerror,
        )
        yield token, None
        return
    try:
        yield token, path
    finally:
        with contextlib.suppress(OSError):
            if path.read_text(encoding="utf-8") == token:  # else it is another gateway's by now
                path.unlink()


def found_token(state: Path, address: tuple[str, int]) -> str | None:
    """The token that a gateway of this machine has made, for its own address alone; None without one.

    Raises ValueError for a file that cannot be read.
    """
    host, port = address
    if not is_loopback(host):
        return None
    path = _file(state, port)
    try:
        return admin_token(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read: {error.strerror}; run this as who runs the gateway"
        ) from None


def link_of(url: str, token: str) -> str:
    """The address that signs a browser in. What stands behind `#` is sent to no server and in no Referer."""
    host, port = host_and_port(url.removeprefix("http://"))
    if host in ("0.0.0.0", "::"):  # noqa: S104  # to be replaced, since no browser goes there
        url = f"http://127.0.0.1:{port}"
    return f"{url}/#token={token}"


def _file(state: Path, port: int) -> Path:
    return state / f"admin-token-{port}"


def _write(path: Path, token: str) -> None:
    """Replace the file by a new one of its owner's alone, whatever was there before."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(token)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
