"""Mutated settings of a checkout that nobody trusts: an operator's policy comes into force all the same.

`make fuzz` tries 10,000. HOOKGATE_FUZZ_SETTINGS is their number, HOOKGATE_FUZZ_SEED the first one's.
"""

import logging
import os
import time
from pathlib import Path

import pytest
from fuzz.settings_mutations import mutated
from support.hooks.settings import SESSION, asking, write_file

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy.admin.listener import state_of_hooks
from hookgate.proxy.admin.policy import HookPanel, shown_policy
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.policy import load_policy
from hookgate.translator.strictjson import dumps

_FILES = int(os.environ.get("HOOKGATE_FUZZ_SETTINGS", "150"))
_SEED = int(os.environ.get("HOOKGATE_FUZZ_SEED", "0"))


def denying(folder: Path, number: int) -> Path:
    """A policy that denies the model of every call. The name of its hook is the number of the edit."""
    hook = {
        "type": "builtin",
        "builtin": "models",
        "name": f"guard {number}",
        "options": {"deny": ["gemini-*"]},
    }
    return write_file(folder, {"hooks": {"BeforeModel": [{"hooks": [hook]}]}}, "policy.json")


async def denied_by(reloader: EngineReloader) -> list[str]:
    """The hooks that deny a call now."""
    with reloader.lease() as engine:
        outcome = await engine.fire(asking("hi"), SESSION)
    assert outcome.verdict.denied
    return [run.hook.name for run in outcome.runs if run.enforced_denial]


async def test_no_settings_of_a_checkout_keep_a_policy_out_of_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "hookgate")  # each file causes warnings
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(tmp_path / "none.json"))
    project = tmp_path / "project"
    file = project / ".gemini" / "settings.json"
    file.parent.mkdir(parents=True)
    (project / "loop").symlink_to("loop")
    os.mkfifo(project / "pipe")
    sources = Sources((denying(tmp_path, -1),), project=project, state=tmp_path / "state")
    reloader = load_policy(sources)
    panel = HookPanel(reloader, sources)
    in_force: list[tuple[float, float]] = []
    reloader.watchers.append(lambda _: in_force.append((time.perf_counter(), time.process_time())))
    slowest: dict[str, tuple[float, str]] = {}

    def note(what: str, seconds: float, about: str) -> None:
        slowest[what] = max(slowest.get(what, (0.0, "")), (seconds, about))

    for number in range(_SEED, _SEED + _FILES):
        about = f"{number}: {mutated(number, file)}"
        denying(tmp_path, number)
        in_force.clear()
        began, began_process = time.perf_counter(), time.process_time()
        assert await reloader.reload(), about
        note("until in force", in_force[0][0] - began, about)
        note("until in force, processor", in_force[0][1] - began_process, about)
        note("reload, processor", time.process_time() - began_process, about)
        began_process = time.process_time()
        assert f"guard {number}" in await denied_by(reloader), about
        note("call, processor", time.process_time() - began_process, about)
        assert not reloader.refusal, about
        dumps([await panel.rows(), state_of_hooks(reloader)])
        dumps(shown_policy(reloader.current.configuration, sources))
        if number % 5 == 0:
            began_process = time.process_time()
            started = load_policy(sources)
            note("start, processor", time.process_time() - began_process, about)
            assert f"guard {number}" in await denied_by(started), about
            await started.close()
    await reloader.close()
    for what, (seconds, about) in slowest.items():
        print(f"{what}: at most {seconds:.3f} s, {about[:300]}")
