"""Trust: hooks of a project run only with the content that the user has trusted."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.hooks.settings import SESSION, asking, command, one_group, write_file

from hookgate.hooks import AfterModel, Engine, SettingsError
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.session import Withheld
from hookgate.hooks.settings import Hook, Layer, SettingsSource, load_sources
from hookgate.hooks.trust import TrustStore, digest_of, hook_fingerprint, scripts_of

DENY = "#!/bin/sh\necho no >&2; exit 2\n"


def trust(store: TrustStore, hooks: Sequence[Hook]) -> list[Hook]:
    return store.trust({hook: hook_fingerprint(hook) for hook in hooks})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write_file(folder, DENY, "hooks/guard.sh").chmod(0o755)
    write_file(folder, "def act(event): return {'decision': 'deny'}", "act.py")
    write_file(folder, "package hookgate\ndeny contains 1", "hooks/guard.rego")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state")


def hooks_of(project: Path, *configs: Any, layer: Layer = "project") -> list[Hook]:
    path = write_file(project, one_group(*configs), ".gemini/settings.json")
    return load_sources([SettingsSource(path, layer)]).hooks()


@pytest.mark.parametrize("layer", ["policy", "explicit", "user", "system", "extensions"])
def test_only_a_project_s_hooks_need_trust(project: Path, store: TrustStore, layer: Layer) -> None:
    [hook] = hooks_of(project, command("hooks/guard.sh"), layer=layer)
    assert store.trusts(hook)


def test_a_new_hook_is_not_trusted_and_the_refusal_tells_what_to_do(project: Path, store: TrustStore) -> None:
    [hook] = hooks_of(project, command("hooks/guard.sh"))
    assert f"hookgate hooks trust --project {project}" in str(store.refusal(hook))


def test_trust_lasts_over_restarts(project: Path, store: TrustStore, tmp_path: Path) -> None:
    hooks = hooks_of(project, command("hooks/guard.sh"))
    assert trust(store, hooks) == hooks
    assert trust(store, hooks) == []
    [again] = hooks_of(project, command("hooks/guard.sh"))
    assert TrustStore(tmp_path / "state").refusal(again) is None


CHANGES: dict[str, Any] = {
    "name": command("hooks/guard.sh", name="other"),
    "command": command("hooks/guard.sh --quiet", name="guard"),
    "variables": command("hooks/guard.sh", name="guard", env={"A": "b"}),
    "kind": command("hooks/guard.sh", name="guard", persistent=True),
}


@pytest.mark.parametrize("options", [{}, {"detect": ["network"]}, {"words": {"NAME": ["Blue Heron"]}}])
def test_a_change_to_the_options_of_a_policy_ends_the_trust(
    project: Path, store: TrustStore, options: dict[str, Any]
) -> None:
    policy = {"type": "builtin", "builtin": "redact", "name": "guard"}
    trust(store, hooks_of(project, {**policy, "options": {"detect": ["credentials"]}}))
    [same] = hooks_of(project, {**policy, "options": {"detect": ["credentials"]}})
    assert store.trusts(same)
    [changed] = hooks_of(project, {**policy, "options": options})
    assert not store.trusts(changed)


def test_another_policy_of_the_same_name_is_not_trusted(project: Path, store: TrustStore) -> None:
    trust(store, hooks_of(project, {"type": "builtin", "builtin": "redact", "name": "guard"}))
    [changed] = hooks_of(project, {"type": "builtin", "builtin": "cassette", "name": "guard"})
    assert not store.trusts(changed)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_to_the_hook_ends_the_trust(project: Path, store: TrustStore, change: str) -> None:
    trust(store, hooks_of(project, command("hooks/guard.sh", name="guard")))
    [changed] = hooks_of(project, CHANGES[change])
    assert not store.trusts(changed)


@pytest.mark.parametrize(
    "config",
    [
        command("hooks/guard.sh", name="guard"),
        command("$GEMINI_PROJECT_DIR/hooks/guard.sh", name="guard"),
        command('cat - | "${CLAUDE_PROJECT_DIR}/hooks/guard.sh" && true', name="guard"),
        command(["hooks/guard.sh"], name="guard"),
        {"type": "runtime", "action": "./act.py:act", "name": "guard"},
        {"type": "rego", "files": ["hooks/guard.rego"], "name": "guard"},
    ],
    ids=lambda config: str(config.get("command", config.get("action", "rego"))),
)
def test_a_change_to_the_script_ends_the_trust_at_once(project: Path, store: TrustStore, config: Any) -> None:
    [hook] = hooks_of(project, config)
    trust(store, [hook])
    assert store.trusts(hook)
    [script] = scripts_of(hook)
    script.write_text(script.read_text() + "\n# changed")
    assert not store.trusts(hook)


def test_trust_in_one_project_does_not_apply_to_another(
    project: Path, store: TrustStore, tmp_path: Path
) -> None:
    trust(store, hooks_of(project, command("true")))
    [elsewhere] = hooks_of(tmp_path / "other", command("true"))
    assert not store.trusts(elsewhere)


def test_the_machine_s_programs_are_no_part_of_a_hook(project: Path) -> None:
    [hook] = hooks_of(project, command("/usr/bin/env sh hooks/guard.sh"))
    assert scripts_of(hook) == (project / "hooks/guard.sh",)


def test_a_command_line_with_an_open_quote_has_a_fingerprint_as_well(project: Path) -> None:
    [hook] = hooks_of(project, command("echo 'open hooks/guard.sh"))
    assert scripts_of(hook) == (project / "hooks/guard.sh",)
    assert hook_fingerprint(hook) == hook_fingerprint(hook)


INLINE = f"python3 -c '{'x = 1; ' * 80}'"
ODD: dict[str, Any] = {
    "a word that is longer than a name": command(INLINE),
    "a path that is longer than paths": command("a/" * 5000),
    "a null character": command("hooks/guard.sh \0"),
    "a symlink to itself": command("hooks/guard.sh loop"),
    "a file that nobody may read": command("hooks/guard.sh hidden/file"),
    "a pipe": command("hooks/guard.sh pipe"),
    "a device": command("hooks/guard.sh /dev/zero zero"),
    "a list": command(["hooks/guard.sh", "a" * 300, "\0"]),
    "a callable": {"type": "runtime", "action": f"./{'a' * 300}.py:act"},
}


@pytest.mark.parametrize("config", ODD.values(), ids=list(ODD))
def test_every_command_line_has_a_fingerprint(config: Any, project: Path, store: TrustStore) -> None:
    (project / "loop").symlink_to("loop")
    (project / "zero").symlink_to("/dev/zero")
    os.mkfifo(project / "pipe")
    write_file(project, "", "hidden/file").parent.chmod(0)
    [hook] = hooks_of(project, config)
    assert set(scripts_of(hook)) <= {project / "hooks/guard.sh", project / "hidden/file"}
    assert trust(store, [hook]) == [hook]
    assert store.trusts(hook)
    (project / "hidden").chmod(0o700)


@pytest.mark.parametrize(
    "line",
    [
        "hooks/guard.sh >> calls.jsonl",
        "hooks/guard.sh>calls.jsonl",
        "hooks/guard.sh 2>calls.jsonl",
        "hooks/guard.sh &> calls.jsonl",
        "hooks/guard.sh >| calls.jsonl; echo done >> calls.jsonl",
        "hooks/guard.sh >&calls.jsonl",
    ],
)
def test_a_file_that_the_hook_writes_does_not_end_its_trust(
    line: str, project: Path, store: TrustStore
) -> None:
    write_file(project, "", "calls.jsonl")
    [hook] = hooks_of(project, command(line))
    trust(store, [hook])
    write_file(project, "called", "calls.jsonl")
    assert store.trusts(hook)
    assert scripts_of(hook) == (project / "hooks/guard.sh",)


@pytest.mark.parametrize(
    "line",
    [
        "cat '>' evil.sh | sh",
        "cat \\> evil.sh | sh",
        "sh < evil.sh",
        "sh <> evil.sh",
        "cat > evil.sh; sh evil.sh",
        "true #; sh evil.sh",
        "sh ./evil#1.sh",
    ],
)
def test_a_file_that_only_looks_written_is_part_of_the_hook(line: str, project: Path) -> None:
    write_file(project, "", "evil.sh")
    write_file(project, "", "evil#1.sh")
    [hook] = hooks_of(project, command(line))
    assert len(scripts_of(hook)) == 1


def test_the_code_of_a_hook_that_waits_for_trust_is_not_imported(project: Path, store: TrustStore) -> None:
    ran = project / "ran"
    write_file(project, f"open({str(ran)!r}, 'w').close()\ndef act(event): ...", "act.py")
    hooks = hooks_of(project, {"type": "runtime", "action": "./act.py:act"})
    make_runners(hooks, trust_check=store.refusal)
    assert not ran.exists()
    trust(store, hooks)
    make_runners(hooks, trust_check=store.refusal)
    assert ran.exists()


@pytest.mark.parametrize(
    "config",
    [
        {"type": "runtime", "action": "./none.py:act"},
        {"type": "http", "url": "https://elsewhere.example/"},
        {"type": "builtin", "builtin": "none"},
        {"type": "rego", "files": ["none.rego"]},
    ],
    ids=lambda config: config["type"],
)
async def test_a_hook_that_could_never_run_does_no_harm_before_it_is_trusted(
    config: Any, project: Path, store: TrustStore
) -> None:
    path = write_file(project, one_group(config), ".gemini/settings.json")
    own = write_file(project, one_group(command("exit 2")), "own.json")
    configuration = load_sources([SettingsSource(path, "project"), SettingsSource(own)])
    runners = make_runners(configuration.hooks(), trust_check=store.refusal)
    outcome = await Engine(configuration, runners, trust_check=store.refusal).fire(asking("hi"), SESSION)
    assert outcome.verdict.denied
    with pytest.raises(SettingsError):
        make_runners(configuration.hooks())


@pytest.mark.parametrize("on_error", ["allow", "deny"])
def test_a_policy_that_waits_for_trust_screens_no_answer(
    on_error: str, project: Path, store: TrustStore
) -> None:
    config = {"type": "builtin", "builtin": "redact", "on_error": on_error}
    path = write_file(project, one_group(config, event="AfterModel"), ".gemini/settings.json")
    configuration = load_sources([SettingsSource(path, "project")])
    runners = make_runners(configuration.hooks(), trust_check=store.refusal)
    engine = Engine(configuration, runners, trust_check=store.refusal)
    screens = engine.screens(engine.plan(AfterModel({}, {}, "m"), SESSION), SESSION)
    if on_error == "allow":
        assert screens == []
    else:
        with pytest.raises(Withheld):
            screens[0].feed([{}], last=True)
        assert "is not trusted" in screens[0].as_run().error


def test_a_policy_whose_trust_cannot_be_checked_withholds_the_answer(project: Path) -> None:
    config = {"type": "builtin", "builtin": "redact", "on_error": "allow"}
    path = write_file(project, one_group(config, event="AfterModel"), ".gemini/settings.json")

    check = mock.Mock(return_value=None)
    engine = Engine(load_sources([SettingsSource(path, "project")]), trust_check=check)
    check.side_effect = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    [screen] = engine.screens(engine.plan(AfterModel({}, {}, "m"), SESSION), SESSION)
    with pytest.raises(Withheld):
        screen.feed([{}], last=True)
    with pytest.raises(Withheld):
        screen.redact("an error")
    run = screen.as_run()
    assert "cannot be checked: Too many open files" in run.error
    assert "could not judge this call (no resources)" in run.client_reason()


def test_the_refusal_of_an_untrusted_policy_is_no_internal_error(project: Path, store: TrustStore) -> None:
    config = {"type": "builtin", "builtin": "redact", "name": "guard"}
    path = write_file(project, one_group(config, event="AfterModel"), ".gemini/settings.json")
    engine = Engine(load_sources([SettingsSource(path, "project")]), trust_check=store.refusal)
    [screen] = engine.screens(engine.plan(AfterModel({}, {}, "m"), SESSION), SESSION)
    with pytest.raises(Withheld, match="The hook 'guard' failed"):
        screen.feed([{}], last=True)
    assert "The hook 'guard' failed" in screen.as_run().client_reason()


def test_nothing_of_an_untrusted_hook_is_imported(project: Path, store: TrustStore) -> None:
    write_file(project, "raise SystemExit('imported')", "act.py")
    action = {"type": "runtime", "action": "./act.py:act"}
    path = write_file(project, one_group(action), ".gemini/settings.json")
    Engine(load_sources([SettingsSource(path, "project")]), trust_check=store.refusal)


@pytest.mark.parametrize(("on_error", "denied"), [("allow", False), ("deny", True)])
async def test_an_untrusted_hook_does_not_run_and_its_on_error_decides(
    project: Path, store: TrustStore, on_error: str, denied: bool
) -> None:
    path = write_file(project, one_group(command("touch ran", on_error=on_error)), ".gemini/settings.json")
    engine = Engine(load_sources([SettingsSource(path, "project")]), trust_check=store.refusal)
    outcome = await engine.fire(asking("hi"), SESSION)
    assert "is not trusted" in outcome.runs[0].error
    assert outcome.verdict.denied == denied
    assert not (project / "ran").exists()


async def test_a_trusted_hook_whose_script_cannot_be_read_for_want_of_a_descriptor_denies(
    project: Path, store: TrustStore
) -> None:
    trust(store, hooks_of(project, command("hooks/guard.sh")))
    path = project / ".gemini/settings.json"
    engine = Engine(load_sources([SettingsSource(path, "project")]), trust_check=store.refusal)
    os.utime(project / "hooks/guard.sh", (1, 1))  # so that the file is read again
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    with mock.patch("hookgate.hooks.trust.open", side_effect=error, create=True):
        outcome = await engine.fire(asking("hi"), SESSION)
    assert "could not judge this call (no resources)" in outcome.verdict.reason
    outcome = await engine.fire(asking("hi"), SESSION)  # it was not forgotten that the hook is trusted
    assert outcome.verdict.reason == "no"


async def test_a_script_that_changes_while_hooks_run_is_not_run(project: Path, store: TrustStore) -> None:
    hooks = hooks_of(project, command("hooks/guard.sh"))
    trust(store, hooks)
    path = project / ".gemini/settings.json"
    engine = Engine(load_sources([SettingsSource(path, "project")]), trust_check=store.refusal)
    assert (await engine.fire(asking("hi"), SESSION)).verdict.denied
    (project / "hooks/guard.sh").write_text("#!/bin/sh\ntouch ran\n")
    outcome = await engine.fire(asking("hi"), SESSION)
    assert "is not trusted" in outcome.runs[0].error
    assert not (project / "ran").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"project": 1}'])
def test_a_broken_store_is_reported_rather_than_forgotten(tmp_path: Path, content: str) -> None:
    write_file(tmp_path, content, "trusted_hooks.json")
    with pytest.raises(SettingsError, match=r"trusted_hooks\.json: .*repair or remove it"):
        TrustStore(tmp_path)


def test_the_error_for_an_unreadable_store_does_not_advise_to_remove_it(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(SettingsError, match=r"json: cannot be read: Not a directory; .* with --state$"):
        TrustStore(tmp_path / "state")


def test_the_store_tells_a_reader_what_was_trusted_and_when(project: Path, store: TrustStore) -> None:
    trust(store, hooks_of(project, command("hooks/guard.sh", name="guard")))
    [path] = (project.parent / "state").iterdir()
    [entry] = json.loads(path.read_text())[str(project)].values()
    assert (entry["name"], entry["runs"], entry["trusted"][:2]) == ("guard", "hooks/guard.sh", "20")


def test_a_file_that_another_program_has_locked_has_no_digest(tmp_path: Path) -> None:
    path = write_file(tmp_path, "true", "a.sh")
    with mock.patch("os.open", side_effect=BlockingIOError(errno.EAGAIN, "locked")):
        assert digest_of(path) is None


def test_a_file_has_the_digest_of_its_content_only_up_to_a_size(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a" * 100, "a.sh")
    before = {size: digest_of(path, max_bytes=size) for size in (99, 100, 101)}
    os.utime(path, (1, 1))
    same = {size: digest_of(path, max_bytes=size) == digest for size, digest in before.items()}
    assert same == {99: False, 100: True, 101: True}


@pytest.mark.parametrize("place", [".", "hooks", "hooks/guard.sh"])
@pytest.mark.parametrize("change", ["anyone", "owner"])
async def test_a_hook_that_another_user_could_replace_does_not_run(
    place: str, change: str, project: Path, store: TrustStore
) -> None:
    hooks = hooks_of(project, command("hooks/guard.sh"))
    trust(store, hooks)
    assert store.refusal(hooks[0]) is None
    if change == "anyone":
        (project / place).chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(project / place, 65534, -1)
    else:
        pytest.skip("only root can give files away")
    message = str(store.refusal(hooks[0]))
    assert message.startswith(f"cannot be trusted: another user can write to {(project / place).resolve()},")
    os.chown(project / place, os.geteuid(), -1)
    (project / place).chmod(0o755)
    assert store.refusal(hooks[0]) is None


def test_trust_covers_the_files_of_rules(project: Path, store: TrustStore) -> None:
    rules = write_file(project, "[[rules]]\nid = 'a'\nregex = 'abc_[a-z]{9}'\n", "rules.toml")
    options = {"rules": ["./rules.toml", {"id": "b", "regex": "bcd_[a-z]{9}"}, "./missing.toml"]}
    [hook] = hooks_of(project, {"type": "builtin", "builtin": "redact", "options": options})
    assert scripts_of(hook) == (rules,)
    trust(store, [hook])
    assert store.trusts(hook)
    rules.write_text("[[rules]]\nid = 'a'\nregex = 'xyz_[a-z]{9}'\n")
    assert not store.trusts(hook)
