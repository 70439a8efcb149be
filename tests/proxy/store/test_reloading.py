"""Reloaded settings that need the store for the first time while the gateway runs."""

from pathlib import Path

import pytest
from support.gateway.loopback import write_settings

from hookgate.proxy import policy
from hookgate.proxy.config import StoreSettings
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.store import Store

MODELS = {"type": "builtin", "builtin": "models", "options": {}}
RULES = {"rules": [{"per": "key", "window": "day", "requests": 1}]}
LIMITS = {"type": "builtin", "builtin": "limits", "options": RULES}


async def test_the_last_good_settings_stay_until_the_store_can_be_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = write_settings(tmp_path, {"BeforeModel": [MODELS]})
    sources = Sources(policy=(settings,), state=tmp_path / "state")
    in_the_way = sources.state / "hookgate.db"
    in_the_way.mkdir(parents=True)
    async with Store(StoreSettings(), sources.state) as store:
        live = policy.load_policy(sources, store=store)
        before = live.current
        write_settings(tmp_path, {"BeforeModel": [LIMITS]})
        assert await live.reload() is False
        assert live.current is before
        assert "hookgate.db cannot be opened: Is a directory" in caplog.text
        in_the_way.rmdir()
        assert await live.reload() is True
        assert in_the_way.is_file()
        await live.close()
