"""The admin listener: health, readiness and metrics."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.gateway.life import gateway_with
from support.gateway.loopback import running_upstream, says, write_settings
from support.wire import HI, SSE, UNARY, ask, connected, post, request_bytes

from hookgate.hooks import AfterModel, Engine, SessionContext
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.settings import SettingsSource
from hookgate.proxy.admin import listener
from hookgate.proxy.admin.listener import AdminListener, running_admin
from hookgate.proxy.observe.metrics import Metrics
from hookgate.proxy.sessions.sessions import LocalSessions

DENY = {"decision": "deny", "reason": "Not in this house."}


def reloader_of(folder: Path, *commands: str) -> EngineReloader:
    """An engine whose hooks are these programs."""
    hooks = [{"type": "command", "name": f"hook-{at}", "command": each} for at, each in enumerate(commands)]
    file = write_settings(folder, {"AfterModel": hooks})
    return EngineReloader(
        lambda: [SettingsSource(file)], lambda settings, health: Engine(settings, health=health)
    )


def samples(page: bytes) -> dict[tuple[str, ...], float]:
    """The values of hookgate's own metrics, by name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name.startswith("hookgate_")
    }


async def test_alive_from_the_first_moment_and_ready_until_it_stops(tmp_path: Path) -> None:
    here = AdminListener(Metrics())
    async with listener.serve_admin(here, "127.0.0.1", 0) as url:
        assert (await ask(url, "GET", "/healthz")).json == {"status": "ok"}
        starting = await ask(url, "GET", "/readyz")
        assert (starting.status, starting.json["status"]) == (503, "starting")
        here.reloader = reloader_of(tmp_path)
        ready = await ask(url, "GET", "/readyz")
        revision = here.reloader.current.revision
        assert (ready.status, ready.json) == (
            200,
            {
                "status": "ready",
                "revision": revision,
                "degraded": [],
                "fail_open": [],
                "fail_open_on_exit_codes": [],
            },
        )
        here.draining = True
        stopping = await ask(url, "GET", "/readyz")
        assert (stopping.status, stopping.json["status"]) == (503, "draining")
        assert (await ask(url, "GET", "/healthz")).status == 200


async def test_a_connection_that_operators_left_idle_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far sooner than one of clients, which make many calls on it."""
    limits = listener._LIMITS.model_copy(update={"header_timeout": 0.05})
    monkeypatch.setattr(listener, "_LIMITS", limits)
    async with (
        listener.serve_admin(AdminListener(Metrics()), "127.0.0.1", 0) as url,
        connected(url) as wire,
    ):
        await wire.write(request_bytes("GET", "/healthz", b"", {}))
        assert (await wire.answer()).status == 200
        assert await wire.ended()


async def test_it_is_not_ready_before_clients_are_listened_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hookgate")
    reloader = reloader_of(tmp_path)
    async with running_admin(reloader, None, Metrics(), "127.0.0.1:0") as here:
        reported = re.search(r"admin listener on (http://\S+) \(panel, metrics, health\)", caplog.text)
        assert reported
        starting = await ask(reported[1], "GET", "/readyz")
        assert (starting.status, starting.json["reason"]) == (503, "the gateway does not accept clients yet")
        here.reloader = reloader
        assert (await ask(reported[1], "GET", "/readyz")).status == 200
    await reloader.close()


async def test_a_degraded_hook_is_named_and_described(tmp_path: Path) -> None:
    metrics = Metrics()
    here = AdminListener(metrics)
    here.reloader = reloader_of(tmp_path, "exit 1", "exit 0", """echo '{"decision": "deny"}'""")
    metrics.expose_engine(here.reloader)
    with here.reloader.lease() as engine:
        await engine.fire(AfterModel({}, {"candidates": []}, "m"), SessionContext("s"))
    async with listener.serve_admin(here, "127.0.0.1", 0) as url:
        ready = await ask(url, "GET", "/readyz")
        counted = samples((await ask(url, "GET", "/metrics")).body)
    assert (ready.status, ready.json["degraded"]) == (200, ["hook-0"])
    assert {key[2]: value for key, value in counted.items() if key[0] == "hookgate_hook_degraded"} == {
        "hook-0": 1,
        "hook-1": 0,
        "hook-2": 0,
    }
    assert counted["hookgate_revision_info", here.reloader.current.revision] == 1
    await here.reloader.close()


async def test_a_gateway_whose_sessions_cannot_be_used_is_not_ready(tmp_path: Path) -> None:
    class Unusable(LocalSessions):
        def are_usable(self) -> bool:
            return False

    here = AdminListener(Metrics())
    here.reloader = reloader_of(tmp_path)
    async with listener.serve_admin(here, "127.0.0.1", 0) as url:
        here.sessions = LocalSessions()
        assert (await ask(url, "GET", "/readyz")).status == 200
        here.sessions = Unusable()
        answer = await ask(url, "GET", "/readyz")
    assert (answer.status, answer.json["status"]) == (503, "unready")
    await here.reloader.close()


async def test_settings_that_are_not_in_use_are_reported_until_they_are_mended(tmp_path: Path) -> None:
    here = AdminListener(Metrics())
    here.reloader = reloader = reloader_of(tmp_path, "exit 0")
    good = (tmp_path / "settings.json").read_text()
    async with listener.serve_admin(here, "127.0.0.1", 0) as url:
        (tmp_path / "settings.json").write_text('{"hooks": 5}')
        await reloader.reload()
        refused = await ask(url, "GET", "/readyz")
        (tmp_path / "settings.json").write_text(good)
        await reloader.reload()
        mended = await ask(url, "GET", "/readyz")
    assert refused.status == 200
    assert refused.json["settings_error"].startswith(f"{tmp_path}/settings.json:1: hooks: must be an object")
    [layer] = refused.json["not_in_force"]
    assert (layer["layer"], layer["file"]) == ("operator", f"{tmp_path}/settings.json")
    assert (layer["since"][:2], layer["reason"]) == ("20", refused.json["settings_error"])
    assert not {"settings_error", "not_in_force"} & mended.json.keys()
    await reloader.close()


async def test_reloads_are_counted_by_their_outcome(tmp_path: Path) -> None:
    reloader = reloader_of(tmp_path, "exit 0")
    metrics = Metrics()
    metrics.expose_engine(reloader)
    await reloader.reload()
    (tmp_path / "settings.json").write_text("{")
    await reloader.reload()
    await reloader.reload()
    (tmp_path / "settings.json").write_text(json.dumps({"hooks": {}}))
    await reloader.reload()
    counted = samples(metrics.page())
    results = {key[1]: value for key, value in counted.items() if key[0] == "hookgate_config_reloads_total"}
    assert results == {"unchanged": 1, "refused": 2, "applied": 1}
    await reloader.close()


async def test_calls_are_counted_by_kind_of_route_status_and_outcome() -> None:
    metrics = Metrics()
    async with (
        running_upstream() as (upstream_url, _),
        gateway_with(upstream_url, {"BeforeModel": [says(DENY)]}, metrics=metrics) as url,
    ):
        await post(url, UNARY, HI)
        await post(url, SSE, HI)
        await ask(url, "GET", "/v1beta/models")
        for path in ("/nowhere", "/else", UNARY + "?x=1"):
            await post(url, path, HI)
    counted = samples(metrics.page())
    calls = {key[1:]: value for key, value in counted.items() if key[0] == "hookgate_calls_total"}
    assert calls == {
        ("denied", "judged", "4xx"): 2,
        ("answered", "forwarded", "2xx"): 1,
        ("refused", "none", "4xx"): 3,
    }
    assert counted["hookgate_calls_in_flight",] == 0


async def test_metrics_are_rendered_once_a_second_however_many_ask() -> None:
    class Counting(AdminListener):
        async def metrics_page(self) -> bytes:
            rendered.append(len(rendered))
            return await super().metrics_page()

    rendered: list[int] = []
    now = 0.0
    async with listener.serve_admin(Counting(Metrics(), clock=lambda: now), "127.0.0.1", 0) as url:
        pages = await asyncio.gather(*(ask(url, "GET", "/metrics") for _ in range(20)))
        assert {page.body for page in pages} == {(await ask(url, "GET", "/metrics")).body}
        assert rendered == [0]
        now = 1.0
        await ask(url, "HEAD", "/metrics")
        await ask(url, "GET", "/metrics")
    assert rendered == [0, 1]


async def test_a_client_that_leaves_does_not_take_the_metrics_from_others() -> None:
    class Slow(AdminListener):
        async def metrics_page(self) -> bytes:
            asked.set()
            await answer.wait()
            return b"page"

    asked, answer = asyncio.Event(), asyncio.Event()
    async with listener.serve_admin(Slow(Metrics(), clock=lambda: 0.0), "127.0.0.1", 0) as url:
        async with connected(url) as wire:
            await wire.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asked.wait()
        other = asyncio.create_task(ask(url, "GET", "/metrics"))
        await ask(url, "GET", "/healthz")
        answer.set()
        assert (await other).body == b"page"


async def test_there_is_nothing_else() -> None:
    async with listener.serve_admin(AdminListener(Metrics()), "127.0.0.1", 0) as url:
        page = await ask(url, "GET", "/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=")
        assert b"process_open_fds" in page.body
        assert (await ask(url, "GET", "/")).error["code"] == 404
        assert (await ask(url, "GET", "/metrics?x")).error["code"] == 404
        assert (await ask(url, "POST", "/metrics")).error["code"] == 403
        assert "server" not in page.headers


@pytest.mark.parametrize(
    "request_line",
    ["GET /metrics HTTP/1.1", "GET /nothing HTTP/1.1", "nonsense"],
    ids=["well", "no path", "no HTTP"],
)
async def test_an_operators_question_has_no_receipt(request_line: str) -> None:
    async with listener.serve_admin(AdminListener(Metrics()), "127.0.0.1", 0) as url, connected(url) as wire:
        await wire.write(f"{request_line}\r\nHost: localhost\r\n\r\n".encode())
        answer = await wire.answer()
    assert "x-request-id" in answer.headers
    assert "x-hookgate-receipt" not in answer.headers
