"""The page about approvals: its first example works, and the example file has every setting."""

import re
from pathlib import Path

from support.bodies.mails import gemini_answer, gemini_turn
from support.gateway.loopback import running_upstream
from support.pages import block_of
from support.places import PROJECT
from support.programs.program import run, serving
from support.wire import UNARY, post

from hookgate.proxy.config import ApprovalSettings, read_config
from hookgate.proxy.config.reading import conflicts, settings_warnings

PAGE = "docs/approvals.md"
SESSION = {"x-goog-api-key": "k", "x-hookgate-session": "s"}


async def test_the_example_asks_and_its_commands_approve(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(block_of(PAGE, '{"hooks"').text)
    file = tmp_path / "hookgate.toml"
    file.write_text(block_of(PAGE, "[hooks]").text)
    ticket = re.search(r"`(This call needs a person's\s.*?)`", (PROJECT / PAGE).read_text(), re.DOTALL)
    assert ticket
    expected = " ".join(ticket[1].split())
    parts = gemini_answer("ann@corp.example")["candidates"][0]["content"]["parts"]
    env = {"HOOKGATE_STATE": str(tmp_path / "state")}
    async with running_upstream({"rules": [{"answer": {"parts": parts}}]}) as (upstream, _):
        words = ("serve", "--config", str(file), "--listen", "127.0.0.1:0", "--upstream", upstream)
        async with serving(*words, env=env) as gateway:
            denied = await post(gateway.url, UNARY, gemini_turn("a mail"), SESSION)
            [id_] = re.findall(r"request ([0-9a-f]{8})", denied.body.decode())
            assert expected.replace("7f3a12bc", id_) in denied.body.decode()
            for command in block_of(PAGE, "hookgate approvals list").commands:
                yes = ["--yes"] if "approve" in command else []
                shown = [id_ if word == "7f3a12bc" else word for word in command]
                ended = await run(*shown, *yes, "--config", str(file), env=env)
                assert ended.code == 0, ended.err
            passed = await post(gateway.url, UNARY, gemini_turn("a mail"), SESSION)
    assert b"functionCall" in passed.body


def test_the_example_file_has_every_setting_and_no_mistake() -> None:
    file = PROJECT / "examples" / "approvals.toml"
    effective = read_config({"config": file}, {})
    settings = effective.config.approvals
    assert ApprovalSettings.model_fields.keys() - settings.model_fields_set == {"secret"}
    assert (list(conflicts(effective.config)), settings_warnings(effective)) == ([], [])
