"""`hookgate keys`, and a gateway that accepts the printed keys."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from support.gateway.keys import UPSTREAM_KEY, denial_reason, key_header, until_answered
from support.gateway.loopback import running_upstream
from support.programs.program import Ended, run, serving
from support.wire import HI, SSE, UNARY, ask, post

from hookgate.proxy.keys.secrets import create_key

KEY = re.compile(r"hgk_[a-z2-7]{10}_[0-9A-Za-z]{49}")


async def keys(*words: str, state: Path, url: str | None = None, code: int = 0, stdin: bytes = b"") -> Ended:
    """A command about the keys in `state`, or at the database's URL."""
    env = {"HOOKGATE_STORE__URL": url or ""}
    ended = await run("keys", *words, "--state", str(state), env=env, stdin=stdin)
    assert ended.code == code, ended.err
    return ended


async def listed(*words: str, state: Path, url: str | None = None) -> list[Any]:
    ended = await keys("list", "--json", *words, state=state, url=url)
    return [json.loads(line) for line in ended.out.splitlines()]


async def test_a_key_is_shown_once_and_listed_with_what_it_may_do(tmp_path: Path) -> None:
    options = (
        "--team",
        "search",
        "--note",
        "CI of the shop",
        "--expires",
        "90d",
        "--models",
        "gemini-*",
        "gemma-3",
    )
    limits = ("--limit", "requests=60/minute", "--limit", "cost=2.5/month", "--limit", "tokens=1000000/day")
    created = await keys("create", "alice@example.com", *options, *limits, state=tmp_path)
    assert KEY.fullmatch(created.out.strip())
    assert not KEY.search(created.err)
    assert f"gateways with the state folder {tmp_path} accept it once they have" in created.err
    shown = await listed(state=tmp_path)
    [key] = shown
    expected = {
        "id": created.out.split("_")[1],
        "owner": "alice@example.com",
        "team": "search",
        "state": "valid",
        "revoked": None,
        "old_key_until": None,
        "last_used": None,
        "routes": ["generate", "embed", "models"],
        "models": ["gemini-*", "gemma-3"],
        "limits": ["requests=60/minute", "cost=2.5/month", "tokens=1000000/day"],
        "note": "CI of the shop",
    }
    assert {name: key[name] for name in expected} == expected
    assert key["expires"] > key["created"]
    table = (await keys("list", state=tmp_path)).out
    assert "requests=60/minute, cost=2.5/month, tokens=1000000/day" in table
    assert not KEY.search(table + json.dumps(shown))


async def test_a_whole_key_is_revoked_by_its_id(tmp_path: Path) -> None:
    """As the person does who has found it in a log."""
    first = json.loads((await keys("create", "alice", "--json", state=tmp_path)).out)
    other = json.loads((await keys("create", "bob", "--json", state=tmp_path)).out)
    revoked = await keys("revoke", first["key"], state=tmp_path)
    assert revoked.out == f"Revoked {first['id']} of alice.\n"
    piped = await keys("revoke", "-", state=tmp_path, stdin=f"{other['key']}\n".encode())
    assert piped.out == f"Revoked {other['id']} of bob.\n"
    again = await keys("revoke", first["key"], state=tmp_path, code=1)
    assert again.complaint == f"hookgate: the key {first['id']} of alice was revoked before"
    cut = await keys("revoke", other["key"][:-1], state=tmp_path, code=1)
    assert "this is not a whole key: characters are missing or wrong" in cut.complaint
    assert other["key"][16:-1] not in cut.complaint
    unknown, key_id = create_key()
    elsewhere = await keys("revoke", unknown, state=tmp_path, code=1)
    assert f"no key with the ID {key_id} was issued here" in elsewhere.complaint


async def test_a_rotated_key_keeps_its_id_and_a_revoked_one_is_listed_on_request(
    url: str | None, tmp_path: Path
) -> None:
    first = json.loads((await keys("create", "alice", "--json", state=tmp_path, url=url)).out)
    rotated = await keys("rotate", "alice", "--overlap", "24h", "--json", state=tmp_path, url=url)
    second = json.loads(rotated.out)
    assert (first["id"], first["owner"]) == (second["id"], "alice")
    assert first["key"] != second["key"]
    [key] = await listed(state=tmp_path, url=url)
    assert key["old_key_until"] > key["created"]
    assert (
        await keys("revoke", first["id"], state=tmp_path, url=url)
    ).out == f"Revoked {key['id']} of alice.\n"
    assert await listed(state=tmp_path, url=url) == []
    [key] = await listed("--all", state=tmp_path, url=url)
    assert (key["state"], key["revoked"] >= key["created"]) == ("revoked", True)
    again = await keys("revoke", key["id"], state=tmp_path, url=url, code=1)
    assert again.complaint == f"hookgate: the key {key['id']} of alice was revoked before"
    assert (
        "is revoked; issue a new one"
        in (await keys("rotate", key["id"], state=tmp_path, url=url, code=1)).err
    )


async def test_an_owner_with_several_keys_is_ambiguous(tmp_path: Path) -> None:
    ids = [json.loads((await keys("create", "alice", "--json", state=tmp_path)).out)["id"] for _ in range(2)]
    ended = await keys("revoke", "alice", state=tmp_path, code=1)
    assert ended.complaint.startswith("hookgate: alice has several keys: ")
    assert all(each in ended.complaint for each in ids)
    await keys("revoke", ids[0], state=tmp_path)
    assert ids[1] in (await keys("revoke", "alice", state=tmp_path)).out
    unknown = await keys("revoke", "alice", state=tmp_path, code=1)
    assert "there is no valid key of this ID or owner" in unknown.complaint


IS_REGEX = "is a regular expression, but names with the wildcards *, ? and […] are expected"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("",), "OWNER: a name is a letter or digit, then up to 31 letters"),
        (("a" * 33,), "OWNER: a name is"),
        (("al\x1bice",), "OWNER: a name is"),
        (("al\nice",), "OWNER: a name is"),
        (("älice",), "OWNER: a name is"),
        (("аlice",), "OWNER: a name is"),  # a Cyrillic letter
        (("../alice",), "OWNER: a name is"),
        (("no-key",), "OWNER: this name is reserved"),
        (("0123456789abcdef01234567",), "OWNER: this name is reserved"),
        (("alice", "--team", "a b"), "--team: a name is"),
        (("alice", "--note", "x\x1b[31m"), "--note: must be at most 100 printable characters"),
        (("alice", "--note", "x" * 101), "--note: must be at most 100 printable characters"),
        (("alice", "--models", "x" * 129), "--models: must be at most 128 printable characters"),
        (
            ("alice", "--models", "models/gemini-*"),
            "--models: 'models/gemini-*' has a prefix; write 'gemini-*'",
        ),
        (
            ("alice", "--models", "gemini-3-pro", "gemini-.*"),
            f"--models: 'gemini-.*' {IS_REGEX}; write 'gemini-*'",
        ),
        (("alice", "--models", "^gemma-3$"), f"--models: '^gemma-3$' {IS_REGEX}; write gemma-3"),
        (("alice", "--models", "x-(pro|lite)"), f"--models: 'x-(pro|lite)' {IS_REGEX}; write x-pro x-lite"),
        (("alice", "--models", r"gemini-[0-9]+"), f"--models: 'gemini-[0-9]+' {IS_REGEX}"),
        (("alice", "--expires", "2001-01-01"), "--expires: '2001-01-01' is in the past"),
        (
            ("alice", "--expires", "soon"),
            "--expires: 'soon' is not a time; write 30m, 12h, 90d or 2027-01-31",
        ),
        (
            ("alice", "--expires", "9999999d"),
            "--expires: '9999999d' is not a duration; write 30m, 12h or 90d",
        ),
        (("alice", "--limit", "60/minute"), "--limit: '60/minute' is not a limit; write requests=60/minute"),
        (("alice", "--limit", "requests=60/hour"), "--limit: 'requests=60/hour' is not a limit"),
        (("alice", "--limit", "requests=0/day"), "limits.0.requests: must be greater than 0"),
        (
            ("alice", "--models", "gemini-*", "--routes", "generate", "live"),
            "the models of live cannot be restricted: their paths do not name the model",
        ),
        (
            ("alice", "--limit", "cost=5/day", "--routes", "generate", "batches", "openai"),
            "tokens and cost of batches, openai cannot be limited: they are not known when calls end",
        ),
    ],
)
async def test_a_key_that_cannot_be_issued_is_refused_with_the_reason(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    ended = await keys("create", *words, state=tmp_path, code=1)
    assert message in ended.complaint
    assert os.listdir(tmp_path) == []


async def test_names_with_wildcards_are_not_taken_for_regular_expressions(tmp_path: Path) -> None:
    models = (
        "gemini-2.*",
        "gemini-[23].*-pro",
        "?.*",
        "[a-c]*",
        "tunedModels/my.model",
        "google/gemini-2.5-pro",
    )
    await keys("create", "alice", "--models", *models, state=tmp_path)
    [key] = await listed(state=tmp_path)
    assert key["models"] == list(models)


async def test_a_key_in_place_of_an_owner_is_not_repeated(tmp_path: Path) -> None:
    canary = (await keys("create", "alice", state=tmp_path)).out.strip()
    for command, code in {"create": 1, "usage": 1, "rotate": 0, "revoke": 0}.items():
        ended = await keys(command, canary, state=tmp_path, code=code)
        assert canary not in ended.err + ended.out


async def test_a_cost_of_nothing_is_shown(tmp_path: Path) -> None:
    await keys("create", "alice", state=tmp_path)
    assert json.loads((await keys("usage", "--json", state=tmp_path)).out)["cost"] == 0
    row = (await keys("usage", state=tmp_path)).out.splitlines()[-1].split()
    assert row[-2:] == ["0.0000", "-"]


async def test_keys_of_another_pepper_are_refused_when_one_is_issued(tmp_path: Path) -> None:
    await keys("create", "alice", state=tmp_path)
    (tmp_path / "keys.pepper").unlink()
    ended = await keys("create", "bob", state=tmp_path, code=1)
    assert "keys were issued with another pepper" in ended.complaint
    await keys("revoke", "alice", state=tmp_path)  # needs no pepper
    await keys("create", "bob", state=tmp_path)


async def test_commands_about_keys_create_nothing(tmp_path: Path) -> None:
    for words in (("list",), ("usage",), ("revoke", "x"), ("rotate", "x")):
        ended = await keys(*words, state=tmp_path, code=1)
        assert (
            ended.complaint
            == f"hookgate: no keys were issued in {tmp_path}; name the gateway's folder with --state"
        )
    assert os.listdir(tmp_path) == []


# ---- with a gateway


def told_by_hooks(folder: Path) -> Path:
    """Settings with a program on every event that keeps what it is given."""
    keep = f"cat >> {folder}/input; env >> {folder}/environment; cat /proc/$PPID/cmdline >> {folder}/args"
    events = ("SessionStart", "BeforeModel", "AfterModel")
    hooks = {event: [{"hooks": [{"type": "command", "command": keep}]}] for event in events}
    path = folder / "settings.json"
    path.write_text(json.dumps({"hooks": hooks}))
    return path


# What workers do and what a database does have nothing to do with each other.
@pytest.mark.parametrize(("workers", "url"), [("1", "sqlite"), ("2", "postgresql")], indirect=["url"])
async def test_a_gateway_accepts_a_key_until_it_is_revoked_and_tells_neither_key(
    workers: str, url: str | None, tmp_path: Path
) -> None:
    state, hooks = tmp_path / "state", tmp_path / "hooks"
    hooks.mkdir()
    (tmp_path / "key").write_text(f"{UPSTREAM_KEY}\n")
    environ = {
        "HOOKGATE_CLIENTS__ISSUED_KEYS": "true",
        "HOOKGATE_CLIENTS__UNKNOWN_KEYS": "refuse",
        **(
            {"HOOKGATE_UPSTREAM__GEMINI_KEY_FILE": str(tmp_path / "key")}
            if workers == "1"
            else {"HOOKGATE_UPSTREAM__GEMINI_KEY": UPSTREAM_KEY}
        ),
        "HOOKGATE_AUDIT__CONTENT": "full",
        "HOOKGATE_LOGS__LEVEL": "debug",
        "HOOKGATE_STORE__URL": url or "",
        "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0",
        "HOOKGATE_ADMIN__TOKEN": "a-token-of-the-test",
        "HOOKGATE_TRANSCRIPTS__ENABLED": "true",
    }
    key = (await keys("create", "alice", "--team", "search", state=state, url=url)).out.strip()
    words = ("serve", "--workers", workers, "--state", str(state), "--hooks", str(told_by_hooks(hooks)))
    told: list[bytes] = []
    async with running_upstream() as (upstream, recorded):
        words += ("--listen", "127.0.0.1:0", "--upstream", upstream)
        async with serving(*words, env=environ, patience=60) as server:
            admin = await admin_url(server)
            for target, headers in (
                (UNARY, key_header(key)),
                (SSE, {"Authorization": f"Bearer {key}"}),
                (f"{UNARY}?key={key}", {}),
                (f"{UNARY}?key={key[:-1]}", {}),
                (f"/v1beta/models/{key}:generateContent", key_header(key)),
                (f"/s/{key}{UNARY}", key_header(key)),
                (f"/v1beta/else?key={key}", {}),
                (UNARY, {"x-goog-api-key": "AIza-a-key-of-google"}),
            ):
                answer = await post(server.url, target, HI, headers)
                told += [answer.body, json.dumps(answer.headers).encode()]
            assert [request.headers["x-goog-api-key"] for request in recorded] == [UPSTREAM_KEY] * 3
            operator = {"Authorization": "Bearer a-token-of-the-test"}
            for path in (
                "/metrics",
                "/readyz",
                "/api/policy",
                "/api/calls",
                "/api/refused",
                "/api/overview",
                "/api/sessions",
                "/api/report?by=key,owner",
                "/api/budgets",
                "/api/calls?format=csv",
            ):
                told.append((await ask(admin, "GET", path, operator)).body)
            await keys("revoke", "alice", state=state, url=url)
            assert denial_reason(await until_answered(server.url, key, 403)) == "KEY_REVOKED"
            server.signal(signal.SIGTERM)
            assert await server.ended() == 0
            told.append(server.log.encode())
    usage = json.loads((await keys("usage", "--json", state=state, url=url)).out)
    assert (usage["owner"], usage["calls"] >= 3, usage["input_tokens"] > 0) == ("alice", True, True)
    audit = await run("audit", "export", "--state", str(state), env={"HOOKGATE_STORE__URL": url or ""})
    told.append(audit.out.encode())
    assert '"key":"alice"' in audit.out
    assert f'"issued_key":"{key.split("_")[1]}"' in audit.out
    told += [
        path.read_bytes()
        for folder in (state, hooks)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "keys.pepper"
    ]
    assert (hooks / "input").stat().st_size
    everything = b"\0".join(told)
    secrets = [key, key.split("_")[2], UPSTREAM_KEY, (state / "keys.pepper").read_text().strip()]
    assert [each for each in secrets if each.encode() in everything] == []


async def admin_url(server: Any) -> str:
    """Where the gateway says that its admin listener is."""
    while not (
        found := re.search(r"open the panel: (http://127\.0\.0\.1:\d+)|admin listener on (\S+\d)", server.log)
    ):
        assert await server.next_line()
    return str(found[1] or found[2])


async def test_a_gateway_without_issued_keys_loads_nothing_of_them(tmp_path: Path) -> None:
    async with running_upstream() as (upstream, _):
        words = ("serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--state", str(tmp_path))
        async with serving(*words) as server:
            assert (await post(server.url, UNARY, HI, {"x-goog-api-key": "any"})).status == 200
    assert not {"keys.db", "keys.pepper"} & {*os.listdir(tmp_path)}
