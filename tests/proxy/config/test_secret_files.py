"""Files that contain a secret: all settings report problems alike, without the secret."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hookgate.proxy.admin.access import admin_token_source, client_secret_source
from hookgate.proxy.config import AdminSettings, SignInSettings, StoreSettings, UpstreamSettings
from hookgate.proxy.config.models import NamedKey
from hookgate.proxy.keys.callers import load_named_keys
from hookgate.proxy.keys.secrets import load_pepper
from hookgate.proxy.store import Store
from hookgate.proxy.upstream.credentials import GatewayCredentials

CANARY = b"canary-4c1d"
SECRETS: dict[str, Callable[[Path], object]] = {
    "admin.token_file: ": lambda file: admin_token_source(AdminSettings(token_file=file)),
    "sign_in.client_secret_file: ": lambda file: client_secret_source(
        SignInSettings(client_secret_file=file)
    ),
    "upstream.gemini_key_file: ": lambda file: GatewayCredentials(UpstreamSettings(gemini_key_file=file), {}),
    "store.url_file: ": lambda file: Store(StoreSettings(url_file=file), file.parent).url(),
    "keys.ci.file: ": lambda file: load_named_keys({"ci": NamedKey(file=file)}),
    "": lambda file: load_pepper(file, file.parent),
}


@pytest.mark.parametrize("setting", SECRETS)
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "does not exist; write the secret into it, or check the path", id="missing"),
        pytest.param(CANARY + b"\n" + CANARY, "", id="two lines"),
        pytest.param(b"\xff" + CANARY, "is not text in UTF-8; it must contain the secret", id="not UTF-8"),
        pytest.param(b"\n", "", id="empty"),
    ],
)
def test_a_file_without_the_secret_is_named_and_not_shown(
    setting: str, content: bytes | None, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=f"^(hookgate: )?{setting}{file}: {problem}") as raised:
        SECRETS[setting](file)
    assert CANARY.decode() not in str(raised.value)
