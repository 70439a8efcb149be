"""`hookgate audit` in a pipe: stdout contains only its result."""

import asyncio
import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from support.gateway.audits import entries_of, ledger_in, opened, record_of
from support.places import PROJECT
from support.programs.commands import missing
from support.programs.program import COMMAND, environment, run
from support.programs.terminal import in_terminal

from hookgate.hooks import SessionContext
from hookgate.proxy.audit.chain import now
from hookgate.proxy.cli.audit import parse_moment

CALLS = 12


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a gateway that has taken calls."""
    folder = tmp_path_factory.mktemp("state")
    records = [record_of(number) for number in range(CALLS)]
    records[3] = record_of(3, outcome="denied", reasons={"BeforeModel": "no secrets in prompts"})
    records[3].hooks["BeforeModel", "no-secrets"].decisions["deny"] = 1  # type: ignore[index]  # see record_of
    with opened(folder) as database, ledger_in(database, folder) as ledger:
        ledger.write(entries_of(*records))
        ledger.close()
    return folder


async def test_calls_are_listed(state: Path) -> None:
    ended = await run("audit", "list", "--state", str(state))
    head, *lines = ended.out.splitlines()
    assert (ended.code, ended.err, len(lines)) == (0, "", CALLS)
    columns = "ended id outcome hook status ms tokens model key session reason"
    assert head.split() == columns.split()
    assert "alice" in lines[0]
    [denied] = [line for line in lines if "denied" in line]
    assert "no-secrets" in denied
    assert denied.endswith("no secrets in prompts")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param(["--outcome", "denied"], 1, id="outcome"),
        pytest.param(["--key", "alice", "--model", "gemini-2.5-flash"], CALLS, id="key and model"),
        pytest.param(["--session", "f" * 32], 0, id="another session"),
        pytest.param(["--since", "5m"], CALLS, id="since"),
        pytest.param(["--since", "2100-01-01"], 0, id="not yet"),
        pytest.param(["--limit", "5"], 5, id="limit"),
        pytest.param(["team:search", "hook:no-secrets"], 1, id="words"),
        pytest.param(["team:search reason:secrets outcome:guarded"], 1, id="one text"),
        pytest.param(["--team", "search", "reason:no secrets in"], 1, id="flags and words"),
        pytest.param(["tokens:>1k", "--all"], CALLS, id="an amount"),
    ],
)
async def test_calls_are_found(words: list[str], count: int, state: Path) -> None:
    ended = await run("audit", "list", "--json", *words, "--state", str(state))
    assert (ended.code, len(ended.out.splitlines())) == (0, count)


async def test_a_list_without_calls_says_what_was_searched_and_what_there_is(
    state: Path, tmp_path: Path
) -> None:
    words = ["team:nobody", "tokens:>1k", "since:2026-01-01T00:00Z"]
    ended = await run("audit", "list", *words, "--state", str(state))
    assert ended.code == 0
    assert re.fullmatch(
        r"hookgate: no calls found from 2026-01-01T00:00:00Z until now, with team, tokens; "
        r"the calls that are recorded ended from 2\S+Z to 2\S+Z\n",
        ended.err,
    )
    as_json = await run("audit", "list", *words, "--json", "--state", str(state))
    assert (as_json.out, as_json.err) == ("", ended.err)
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.close()
    empty = await run("audit", "list", "--state", str(tmp_path))
    assert empty.err == "hookgate: no calls are recorded yet; a call is found once it has ended\n"


async def test_what_is_found_is_exported_as_csv(tmp_path: Path) -> None:
    session = SessionContext("=1+1", client="google-genai-sdk", key="-x", team="search")
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(entries_of(*(record_of(number, session=session) for number in range(60))))
        ledger.close()
    ended = await run("audit", "list", "team:search", "--all", "--csv", "--state", str(tmp_path))
    rows = list(csv.DictReader(ended.out.splitlines()))
    assert (ended.code, ended.err, len(rows)) == (0, "", 60)
    assert (rows[0]["session"], rows[0]["key"]) == ("'=1+1", "'-x")  # a spreadsheet must not compute it
    assert (rows[0]["team"], rows[0]["outcome"], rows[0]["found"]) == ("search", "answered", "")


async def test_the_fields_of_a_call_are_those_of_the_documentation(state: Path) -> None:
    [line] = (await run("audit", "list", "--json", "--limit", "1", "--state", str(state))).out.splitlines()
    documented = (PROJECT / "docs/answers.md").read_text().partition("## Fields")[2]
    fields = re.findall(r"^\| `([a-z_]+)`", documented.partition("## Reports")[0], re.MULTILINE)
    assert sorted(fields) == sorted(json.loads(line))


async def test_pages_follow_each_other(state: Path) -> None:
    found: list[str] = []
    where: list[str] = []
    while True:
        ended = await run("audit", "list", "--json", "--limit", "5", *where, "--state", str(state))
        found += [json.loads(line)["id"] for line in ended.out.splitlines()]
        if not ended.err:
            break
        where = ["--before", ended.err.split()[-1]]
    assert len(found) == len(set(found)) == CALLS


async def test_calls_are_summed_up(state: Path) -> None:
    ended = await run("audit", "report", "--group-by", "team,outcome", "--json", "--state", str(state))
    report = json.loads(ended.out)
    assert {(row["team"], row["outcome"]): row["calls"] for row in report["rows"]} == {
        ("search", "answered"): CALLS - 1,
        ("search", "denied"): 1,
    }
    assert report["total"]["calls"] == CALLS
    table = await run("audit", "report", "outcome:denied", "--state", str(state))
    since, head, *rows = table.out.splitlines()
    assert since.startswith("From ")
    assert head.split()[:3] == ["team", "calls", "denied"]
    assert [row.split()[:3] for row in rows] == [["search", "1", "1"], ["all", "1", "1"]]
    listed = await run("audit", "report", "--group-by", "hook", "--csv", "--state", str(state))
    assert {row["hook"] for row in csv.DictReader(listed.out.splitlines())} == {"no-secrets", "tone"}


async def test_a_narrow_terminal_has_a_call_on_each_line(state: Path) -> None:
    command = [*COMMAND, "audit", "list", "--limit", "3", "--state", str(state)]
    async with in_terminal(command, state, {"HOOKGATE_CONFIG": "/dev/null", "COLUMNS": "80"}) as terminal:
        assert await terminal.ended() == 0
        await terminal.until(lambda: terminal.text.count("alice") == 3)
        lines = [line for line in terminal.text.splitlines() if "alice" in line]
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("limit", ["-1", "0", "many"])
async def test_a_limit_is_a_number_above_0(limit: str, state: Path) -> None:
    ended = await run("audit", "list", f"--limit={limit}", "--state", str(state))
    assert (ended.code, f"must be a whole number above 0, not '{limit}'" in ended.err) == (2, True)


async def test_one_call_is_shown(state: Path) -> None:
    [call] = (await run("audit", "list", "--json", "--limit", "1", "--state", str(state))).out.splitlines()
    shown = await run("audit", "show", json.loads(call)["id"], "--json", "--state", str(state))
    reported = json.loads(shown.out)
    assert reported["start"]["body"]["session"]["key"] == "alice"
    assert reported["end"]["body"]["outcome"] == "answered"


async def test_a_denied_call_is_shown_with_its_outcome_and_reason_first(state: Path) -> None:
    listed = (await run("audit", "list", "--outcome", "denied", "--state", str(state))).out
    shown = await run("audit", "show", listed.splitlines()[1].split()[1], "--state", str(state))
    assert shown.out.splitlines()[:3] == [
        "outcome: denied, with status 200",
        "hooks:   no-secrets",
        "reason:  no secrets in prompts",
    ]


async def test_an_answered_call_is_shown_with_the_effects_of_its_hooks(tmp_path: Path) -> None:
    record = record_of()
    first, second = record.hooks.values()
    first.edits, first.findings = {"raw"}, Counter(EMAIL=2)
    second.causes = {"exit code 1": 1}
    second.mode, second.edits, second.failures, second.runs = "observe", {"text"}, 1, 3
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(entries_of(record))
        ledger.close()
    shown = await run("audit", "show", record.id, "--state", str(tmp_path))
    assert shown.out.splitlines()[:2] == [
        "outcome: answered, with status 200",
        "effects: no-secrets (BeforeModel) edited raw and found EMAIL 2; "
        "tone (AfterModel) would have edited text and failed in 1 of 3 runs (exit code 1)",
    ]


async def test_a_call_that_continued_although_a_hook_failed_is_marked(tmp_path: Path) -> None:
    record = record_of()
    first, second = record.hooks.values()
    first.failures, first.decisions, first.causes = 1, Counter(allow=1), {"timeout": 1}
    second.mode, second.failures, second.decisions = "observe", 1, Counter(allow=1)
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(entries_of(record))
        ledger.close()
    listed = await run("audit", "list", "--state", str(tmp_path), env={"COLUMNS": "300"})
    assert "no-secrets failed (timeout); the call continued" in listed.out
    assert "tone" not in listed.out


async def test_what_a_hook_in_observe_mode_would_have_decided_is_listed_and_shown(tmp_path: Path) -> None:
    record = record_of()
    first, second = record.hooks.values()
    first.decisions, second.mode, second.decisions = Counter(allow=1), "observe", Counter(allow=2, deny=1)
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(entries_of(record))
        ledger.close()
    listed = await run("audit", "list", "--state", str(tmp_path), env={"COLUMNS": "300"})
    shown = await run("audit", "show", record.id, "--state", str(tmp_path))
    assert "tone would have denied" in listed.out
    assert shown.out.splitlines()[1] == "effects: tone (AfterModel) would have denied"


async def test_a_part_of_an_id_must_belong_to_one_call(tmp_path: Path) -> None:
    ids = ["abcdef12" + "0" * 24, "abcdef13" + "0" * 24]
    with opened(tmp_path) as database, ledger_in(database, tmp_path) as ledger:
        ledger.write(entries_of(*(record_of(number, id=name) for number, name in enumerate(ids))))
        ledger.close()
    shown = [await run("audit", "show", part, "--state", str(tmp_path)) for part in ("abcdef1", "abcdef12")]
    assert [each.code for each in shown] == [1, 0]
    assert shown[0].complaint == (
        f"hookgate: several calls have IDs that begin with abcdef1: {', '.join(ids)}; use more digits"
    )
    assert ids[0] in shown[1].out


async def test_the_last_calls(state: Path) -> None:
    ended = await run("audit", "tail", "--json", "--state", str(state))
    positions = [json.loads(line)["position"] for line in ended.out.splitlines()]
    assert len(positions) == 10
    assert positions == sorted(positions)


async def test_an_export_can_be_verified(state: Path, tmp_path: Path) -> None:
    exported = await run("audit", "export", "--state", str(state))
    assert (exported.code, exported.err) == (0, "")
    assert len(exported.out.splitlines()) == 1 + 2 * CALLS + 1 + 1  # registration, records, heads
    file = tmp_path / "export.jsonl"
    file.write_text(exported.out)
    verified = await run("audit", "verify", str(file))
    assert (verified.code, verified.err) == (0, "")
    chain, reported = verified.out.splitlines()
    assert chain.endswith(f": records 1 to {2 * CALLS + 1}, closed.")
    assert reported == f"{2 * CALLS + 1} records of 1 writer: nothing is missing or changed."
    file.write_text(exported.out.replace('"outcome":"denied"', '"outcome":"refused"'))
    verified = await run("audit", "verify", str(file))
    assert (verified.code, "it was changed" in verified.out) == (1, True)


async def test_a_part_can_be_exported(state: Path) -> None:
    assert (
        len((await run("audit", "export", "--until", "2020-01-01", "--state", str(state))).out.splitlines())
        == 2
    )
    assert (
        len((await run("audit", "export", "--since", "1h", "--state", str(state))).out.splitlines()) > CALLS
    )


async def test_a_single_flipped_byte_is_found(state: Path, tmp_path: Path) -> None:
    data = b"".join(path.read_bytes() for path in [state / "audit.db"])
    with closing(sqlite3.connect(state / "audit.db")) as connection:
        body = connection.execute("SELECT body FROM audit_records WHERE position = 8").fetchone()[0]
    place = data.index(body) + len(body) // 2
    damaged = bytearray(data)
    damaged[place] ^= 1
    (tmp_path / "audit.db").write_bytes(damaged)
    verified = await run("audit", "verify", "--state", str(tmp_path))
    assert verified.code == 1
    assert "record 8: its stored data was changed" in verified.out


async def test_without_changes_a_line_says_so(state: Path) -> None:
    ended = await run("audit", "changes", "--state", str(state))
    assert (ended.code, ended.out) == (0, "")
    assert "no changes are recorded" in ended.complaint


async def test_progress_is_for_terminals(state: Path) -> None:
    command = [*COMMAND, "audit", "verify", "--state", str(state)]
    async with in_terminal(command, state, {"HOOKGATE_CONFIG": "/dev/null"}) as terminal:
        assert await terminal.ended() == 0
        await terminal.until(lambda: "none is changed" in terminal.text)
        assert "verifying" in terminal.text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["list", "--since", "soon"], "--since: 'soon' is not a time", id="no time"),
        pytest.param(["show", "0" * 32], "there is no record of", id="no such call"),
        pytest.param(
            ["show", "nonsense"], "'nonsense' is not a receipt ID: use the 32 hexadecimal", id="no id"
        ),
        pytest.param(
            ["list", "--outcome", "denid"],
            "--outcome: 'denid' is not an outcome; use one of answered, blocked, denied, stopped, ",
            id="no outcome",
        ),
        pytest.param(
            ["verify", "/no/such.jsonl"],
            "/no/such.jsonl: cannot be read: No such file or directory; check the path",
            id="no file",
        ),
        pytest.param(
            ["verify", __file__],
            "contains no records; create an export with: hookgate audit export",
            id="no export",
        ),
        pytest.param(["list", "tem:web"], "there is no word 'tem'; did you mean team?", id="no word"),
        pytest.param(["list", "team:a", "--team", "b"], "team is given twice; separate", id="twice"),
        pytest.param(
            ["list", "--before", "x"], "--before: 'x' is not a place; use the one that", id="no place"
        ),
        pytest.param(["list", "--csv", "--json"], "--csv: cannot be given together", id="two forms"),
        pytest.param(["report", "--group-by", "tem"], "--group-by: must be one or several of", id="no group"),
        pytest.param(["list", "--state", "/nowhere"], "there is no audit in /nowhere", id="no audit"),
    ],
)
async def test_mistakes_are_reported_in_one_line(words: list[str], expected: str, state: Path) -> None:
    where = [] if "--state" in words else ["--state", str(state)]
    ended = await run("audit", *words, *where)
    assert ended.code == 1
    assert expected in ended.complaint


async def test_a_line_that_is_not_a_record_is_reported_among_those_that_are(
    state: Path, tmp_path: Path
) -> None:
    exported = await run("audit", "export", "--state", str(state))
    file = tmp_path / "export.jsonl"
    file.write_text(exported.out + "{}\n")
    verified = await run("audit", "verify", str(file))
    assert (verified.code, "it is not a record" in verified.out) == (1, True)


@pytest.mark.parametrize("words", [["list", "--json"], ["export"]], ids=["text", "bytes"])
async def test_a_reader_that_closes_the_pipe_ends_a_command_silently(words: list[str], state: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "audit", *words, "--state", str(state)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=writing, stderr=asyncio.subprocess.PIPE, env=environment()
    )
    os.close(writing)
    _, complaint = await process.communicate()
    assert (process.returncode, complaint) == (141, b"")


async def test_a_damaged_database_is_reported_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "audit.db").write_text("no database " * 99)
    ended = await run("audit", "list", "--state", str(tmp_path))
    assert ended.code == 1
    assert "audit.db cannot be opened: file is not a database; move that file away, or " in ended.complaint


@pytest.mark.parametrize(
    "words", [["tools", "list"], ["audit", "list"], ["hooks", "list"], ["config", "check"]], ids=" ".join
)
async def test_a_state_that_is_not_a_folder_is_reported(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.write_text("")
    ended = await run(*words, env={"HOOKGATE_STATE": str(file)})
    assert ended.code == 1
    assert ended.complaint.endswith(f"hooks.state: {file}: is not a folder; choose one with --state")


@pytest.mark.parametrize("words", [("serve", "--listen", "127.0.0.1:0"), ("keys", "create", "alice")])
async def test_lines_that_cannot_be_written_are_reported_with_their_setting(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    env = {
        "HOOKGATE_AUDIT__JSONL": "/no/such/a.jsonl",
        "HOOKGATE_ADMIN__ADDRESS": "off",
        "HOOKGATE_STATE": str(tmp_path),
    }
    ended = await run(*words, env=env)
    reported = "audit.jsonl: /no/such/a.jsonl: cannot be written: No such file or directory; check the path"
    assert (ended.code, reported in ended.err) == (1, True)


def test_times_are_absolute_or_ago() -> None:
    assert parse_moment("2026-05-04T10:00:00+00:00") == 1_777_888_800_000
    ago = parse_moment("2h")
    assert ago is not None
    assert abs(now() - ago - 7_200_000) < 5000
    assert parse_moment(None) is None


@pytest.fixture(scope="module")
def signing_keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The private and the public key of a pair, in PEM."""
    private, public = (tmp_path_factory.mktemp("keys") / name for name in ("private.pem", "public.pem"))
    key = Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.mark.parametrize("by_program", [False, True])
async def test_a_signed_export_is_checked_with_the_public_key_alone(
    state: Path, tmp_path: Path, signing_keys: tuple[Path, Path], by_program: bool
) -> None:
    private, public = signing_keys
    program = f"cat > data; openssl pkeyutl -sign -rawin -in data -inkey {private} | base64 -w 0"
    if by_program and shutil.which("openssl") is None:
        missing("needs openssl")
    sign = ["--sign-command", f"cd {tmp_path}; {program}"] if by_program else ["--sign-key", str(private)]
    exported = await run("audit", "export", "--state", str(state), *sign)
    assert (exported.code, exported.err) == (0, "")
    file = tmp_path / "export.jsonl"
    file.write_text(exported.out)
    verified = await run("audit", "verify", str(file), "--public-key", str(public))
    assert (verified.code, "nothing is missing or changed" in verified.out) == (0, True)


async def test_changes_of_a_signed_export_are_found(
    state: Path, tmp_path: Path, signing_keys: tuple[Path, Path]
) -> None:
    private, public = signing_keys
    signed = await run("audit", "export", "--state", str(state), "--sign-key", str(private))
    unsigned = await run("audit", "export", "--state", str(state))
    *records, heads = signed.out.splitlines(keepends=True)
    file = tmp_path / "export.jsonl"

    async def problems(text: str) -> str:
        file.write_text(text)
        verified = await run("audit", "verify", str(file), "--public-key", str(public))
        assert verified.code == 1
        return verified.out

    assert "it is not signed" in await problems(unsigned.out)
    assert "no signature covers" in await problems("".join(records))
    assert "record 9 is missing" in await problems("".join([*records[:9], *records[10:], heads]))
    assert "was made with another key" in await problems("".join([*records, heads.replace('"v":1', '"v":2')]))
    assert "are missing" in await problems("".join([*records[:-2], heads]))


async def test_a_database_is_compared_with_signed_heads(
    state: Path, tmp_path: Path, signing_keys: tuple[Path, Path]
) -> None:
    private, public = signing_keys
    heads = await run("audit", "heads", "--state", str(state), "--sign-key", str(private))
    file = tmp_path / "heads.json"
    file.write_text(heads.out)
    command = ["audit", "verify", "--state", str(state), "--expect", str(file), "--public-key", str(public)]
    assert (await run(*command)).code == 0
    file.write_text(heads.out.replace('"seq":', '"seq":1'))
    verified = await run(*command)
    assert (verified.code, "signature does not match" in verified.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["heads", "--sign-key", "/no/such.pem"], "hookgate: /no/such.pem: cannot be read"),
        (["heads", "--sign-key", __file__], "openssl genpkey"),
        (["heads", "--sign-command", "echo no; exit 3"], "exit code 3"),
        (["heads", "--sign-command", "echo no"], "has not printed an Ed25519 signature"),
        (["verify", "--public-key", __file__, "--expect", __file__], "openssl pkey"),
    ],
)
async def test_signing_that_fails_names_the_cause(state: Path, arguments: list[str], named: str) -> None:
    ended = await run("audit", *arguments, "--state", str(state))
    assert (ended.code, named in ended.err, ended.out) == (1, True, "")


@pytest.fixture
def sm2_key(tmp_path: Path) -> Path:
    """A private key of an algorithm that the package cryptography does not support."""
    key = tmp_path / "sm2.pem"
    make = ("openssl", "genpkey", "-algorithm", "SM2", "-out", str(key))
    if shutil.which("openssl") is None or subprocess.run(make, capture_output=True, check=False).returncode:
        missing("needs an openssl with SM2")
    return key


async def test_a_key_of_an_algorithm_that_is_not_supported_is_an_error(state: Path, sm2_key: Path) -> None:
    ended = await run("audit", "heads", "--sign-key", str(sm2_key), "--state", str(state))
    assert (ended.code, "contains no private key that can be read" in ended.err) == (1, True)


async def test_a_public_key_alone_verifies_nothing(state: Path, signing_keys: tuple[Path, Path]) -> None:
    ended = await run("audit", "verify", "--public-key", str(signing_keys[1]), "--state", str(state))
    assert (ended.code, "--expect" in ended.err) == (1, True)
