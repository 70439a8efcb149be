"""`hookgate redact rules | scan` at a terminal."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.redact.policy import Replacer
from hookgate.hooks.policies.secret_key import key_in
from hookgate.proxy.cli.main import run_command

Hookgate = Callable[..., tuple[int, str, str]]
KEY = "AKIA" + "Q3EGRYH7XJ4WPL2D"
RULES = """
[allowlist]
paths = ['^skipped/']
[[rules]]
id = "acme-token"
regex = 'acme_[a-z0-9]{12}'
[[rules]]
id = "php-only"
regex = 'phpkey_[a-z0-9]{12}'
path = '[.]php$'
[[rules]]
id = "look-behind"
regex = '(?<=a)b'
"""


@pytest.fixture
def hookgate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hookgate:
    for name in ("HOOKGATE_STATE", "HOOKGATE_CONFIG", "HOOKGATE_HOOKS", "HOOKGATE_POLICY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("rules.toml").write_text(RULES)

    def run(*words: str) -> tuple[int, str, str]:
        code = run_command(["redact", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def policy(**options: Any) -> str:
    hook = {"name": "no-secrets", "type": "builtin", "builtin": "redact", "options": options}
    Path("policy.json").write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [hook]}]}}))
    return "policy.json"


def written(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def test_rules_lists_what_is_found_and_from_where(hookgate: Hookgate) -> None:
    own = {"id": "own-rule", "regex": "own_[a-z]{9}"}
    file = policy(detect=["AWS_ACCESS_KEY"], patterns={"TICKET": "TCK-[0-9]{6}"}, rules=["./rules.toml", own])
    code, out, _ = hookgate("rules", "--json", "--policy", file)
    [listed] = json.loads(out)
    assert code == 0
    assert listed["hook"] == f"no-secrets ({Path('policy.json')})"
    rows = {(row["kind"], row["from"], row["state"]) for row in map(as_shown, listed["rules"])}
    assert ("TICKET", "settings", "on") in rows
    assert ("AWS_ACCESS_KEY", "built-in", "on") in rows
    assert ("ACME_TOKEN", "./rules.toml: acme-token", "on") in rows
    assert ("OWN_RULE", "settings: own-rule", "on") in rows
    assert ("-", "./rules.toml: php-only", "only in files with certain paths, so not in calls") in rows
    [reason] = [state for _, source, state in rows if source == "./rules.toml: look-behind"]
    assert reason.startswith("not used: regex: is not a valid RE2 pattern")


def as_shown(row: dict[str, str]) -> dict[str, str]:
    return {**row, "from": row["source"]}


ALLOWED = "HG_AWS_ACCESS_KEY_9c1f04d2ab7e5a10"


def redacting(*names: str, **options: Any) -> dict[str, Any]:
    return {
        "hooks": [{"name": n, "type": "builtin", "builtin": "redact", "options": {**options}} for n in names]
    }


def test_allow_adds_a_hash_to_the_hooks_that_redact_and_keeps_the_rest(hookgate: Hookgate) -> None:
    document = {"hooks": {"BeforeModel": [redacting("one", "two")], "AfterModel": [redacting("one")]}}
    before = "// ours\n" + json.dumps(document, indent=2)
    Path("policy.json").write_text(before)
    code, out, _ = hookgate("allow", ALLOWED, "--name", "one", "--policy", "policy.json")
    assert (code, out) == (0, f"policy.json: one lets {ALLOWED} stay\n")
    text = Path("policy.json").read_text()
    assert text.startswith("// ours\n")
    for event in document["hooks"].values():
        event[0]["hooks"][0]["options"]["allow"] = [ALLOWED]
    assert json.loads(text.partition("\n")[2]) == document
    code, out, _ = hookgate("allow", ALLOWED, "--name", "one", "--policy", "policy.json")
    assert (code, out) == (0, f"policy.json: one already lets {ALLOWED} stay\n")
    assert Path("policy.json").read_text() == text
    code, out, _ = hookgate("allow", "HG_EMAIL_0000000000000000", "--policy", "policy.json")
    assert (code, out) == (0, "policy.json: one, two lets HG_EMAIL_0000000000000000 stay\n")
    assert Path("policy.json").read_text().count("HG_EMAIL_0000000000000000") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["9c1f"], "'9c1f' is not the hash of a finding; copy it from a receipt"),
        ([ALLOWED, "--name", "other"], "no hook 'other' uses the policy redact"),
    ],
)
def test_allow_names_what_is_wrong(hookgate: Hookgate, words: list[str], message: str) -> None:
    code, _, err = hookgate("allow", *words, "--policy", policy())
    assert code != 0
    assert message in err


def test_what_a_receipt_tells_can_be_allowed_and_scan_knows_it(hookgate: Hookgate) -> None:
    options = read_options(RedactOptions, {}, Path())
    state = Path("state").absolute()
    found = Replacer(options, key_in(state)).hash_of("AWS_ACCESS_KEY", KEY)
    written("a.txt", f"key {KEY}\n")
    words = ("--policy", policy(), "--state", str(state))
    assert hookgate("scan", "a.txt", *words)[0] == 1
    assert hookgate("allow", found, *words)[0] == 0
    assert hookgate("scan", "a.txt", *words)[:2] == (0, "")


def test_rules_without_a_hook_lists_the_default_options_and_further_files(hookgate: Hookgate) -> None:
    code, out, _ = hookgate("rules", "--rules", "rules.toml")
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "default options:")
    assert any(line.split()[:4] == ["GITHUB_TOKEN", "credentials", "built-in", "on"] for line in lines)
    assert any("rules.toml: acme-token" in line for line in lines)


def test_scan_tells_the_places_and_never_the_secret(hookgate: Hookgate) -> None:
    written("a/one.txt", f"é\nkey {KEY} ok\n")
    written("a/two.txt", "x acme_abc123def456\n")
    written("a/.git/config", KEY)
    Path("a/pixels.bin").write_bytes(b"\0" + KEY.encode())
    Path("a/link.txt").symlink_to("one.txt")
    code, out, err = hookgate("scan", "a", "--rules", "rules.toml")
    assert code == 1
    assert out.splitlines() == [
        "a/one.txt:2:5: [AWS_ACCESS_KEY], 20 characters",
        "a/two.txt:1:3: [ACME_TOKEN], 17 characters  (rules.toml: acme-token)",
    ]
    assert err.splitlines() == ["a/pixels.bin: not read: is binary", "2 found in 3 files by default options"]
    for form in ((), ("--json",), ("--sarif",)):
        _, out, err = hookgate("scan", "a", *form, "--rules", "rules.toml")
        assert KEY not in out + err
        assert "acme_" not in out + err


def test_scan_exits_with_0_if_there_is_nothing_and_with_2_for_trouble(hookgate: Hookgate) -> None:
    written("clean.txt", "all is well\n")
    assert hookgate("scan", "clean.txt")[0] == 0
    for words in (
        ["nowhere"],
        ["clean.txt", "--rules", "nowhere.toml"],
        ["clean.txt", "--policy", "nowhere.json"],
    ):
        code, _, err = hookgate("scan", *words)
        assert (code, "hookgate: nowhere" in err) == (2, True)
    with pytest.raises(SystemExit) as ended:
        hookgate("scan")
    assert ended.value.code == 2


def test_scan_reads_stdin(hookgate: Hookgate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"a {KEY}".encode())))
    code, out, _ = hookgate("scan", "-", "--json")
    [finding] = json.loads(out)["findings"]
    assert code == 1
    assert finding == {
        "file": "stdin",
        "line": 1,
        "column": 3,
        "end_line": 1,
        "end_column": 23,
        "kind": "AWS_ACCESS_KEY",
        "rule": "",
        "length": 20,
        "masked": "[AWS_ACCESS_KEY]",
    }


def test_scan_uses_the_options_of_the_hook(hookgate: Hookgate) -> None:
    written("one.txt", f"{KEY} TCK-123456")
    file = policy(detect=["rules"], patterns={"TICKET": "TCK-[0-9]{6}"})
    code, out, err = hookgate("scan", "one.txt", "--policy", file)
    assert (code, out) == (1, "one.txt:1:22: [TICKET], 10 characters\n")
    assert "by no-secrets (policy.json)" in err


def test_paths_of_rules_and_allowlists_decide_about_files(hookgate: Hookgate) -> None:
    text = "acme_abc123def456 phpkey_abc123def456\n"
    for name in ("a.php", "a.txt", "skipped/a.php"):
        written(name, text)
    _, out, _ = hookgate("scan", "a.php", "a.txt", "skipped", "--rules", "rules.toml", "--json")
    found = [(each["file"], each["kind"]) for each in json.loads(out)["findings"]]
    assert found == [("a.php", "ACME_TOKEN"), ("a.php", "PHP_ONLY"), ("a.txt", "ACME_TOKEN")]


def test_places_in_a_large_file_are_right_wherever_it_is_read(hookgate: Hookgate) -> None:
    line = "words and ünïcode\r\n"
    count = 20_000
    written("large.txt", "")
    Path("large.txt").write_bytes(f"{line * count}  {KEY}\n{line * count}x {KEY}".encode())
    _, out, _ = hookgate("scan", "large.txt", "--json")
    places = [(each["line"], each["column"]) for each in json.loads(out)["findings"]]
    assert places == [(count + 1, 3), (2 * count + 2, 3)]


def test_a_sarif_log_has_the_rules_and_places_that_the_format_requires(hookgate: Hookgate) -> None:
    written("dir with ü/one.txt", f"key {KEY}\nacme_abc123def456 acme_abc123def457")
    Path("dir with ü/pixels.bin").write_bytes(b"\0")
    _, out, _ = hookgate("scan", "dir with ü", "--sarif", "--rules", "rules.toml")
    log = json.loads(out)
    [run] = log["runs"]
    assert log["version"] == "2.1.0"
    names = [each["id"] for each in run["tool"]["driver"]["rules"]]
    assert names == ["AWS_ACCESS_KEY", "rules.toml: acme-token"]
    assert [names[each["ruleIndex"]] for each in run["results"]] == [
        each["ruleId"] for each in run["results"]
    ]
    [first, *_] = run["results"]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "dir%20with%20%C3%BC/one.txt"},
                "region": {"startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 25},
            }
        }
    ]
    [notification] = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"] == "not read: is binary"
