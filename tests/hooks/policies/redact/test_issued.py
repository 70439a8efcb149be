"""Every row of the tables of issued keys: found as what it is, however it is printed, at every split."""

import json
import random
import re
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.texts.formats import example
from support.texts.printed import LINES
from support.texts.secrets import fragments, mask, redacted

from hookgate.hooks import SessionContext
from hookgate.hooks.key_checksums import is_hookgate_key
from hookgate.hooks.policies.redact import Detector, ReplacedFragment, Scanner, shared_scanner
from hookgate.hooks.policies.redact.detectors.checks import is_base58
from hookgate.hooks.policies.redact.detectors.credentials import CREDENTIALS
from hookgate.hooks.policies.redact.detectors.issued import ISSUED
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.hooks.policy_environment import PolicyEnvironment

POLICY: Any = redact_policy({}, PolicyEnvironment(Path("/")))

ROWS = [row for row in ISSUED if row.check not in (is_hookgate_key, is_base58)]
"""Those of which a random text has the check digits."""

WHOLE = pytest.mark.parametrize(
    "rows", [pytest.param(ROWS[at : at + 20], id=f"from {ROWS[at].kind}") for at in range(0, len(ROWS), 20)]
)
"""The table, a few rows at a time."""


@cache
def planted(row: Detector, *, plain: bool = False) -> tuple[str, str, str]:
    """Text before a secret in the row's format, the secret, and text after it; if plain, without escapes."""
    rnd = random.Random(f"{row.kind}{row.pattern}")  # noqa: S311  # a made-up key
    glued = "aB3" if row.kind == "AZURE_SECRET" else ""  # it is found after its first three characters
    while True:
        before, secret, after = example(rnd, row)
        if not (plain and "\\" in before + secret + after):
            return glued + before, secret, after


@WHOLE
def test_a_key_is_found_as_what_it_is_and_nothing_else(scanner: Scanner, rows: list[Detector]) -> None:
    for row in rows:
        before, secret, after = planted(row)
        found = [
            (each.kind, each.original)
            for each in fragments(scanner, [f"so {before}{secret}{after} is"])
            if isinstance(each, ReplacedFragment)
        ]
        assert found == [(row.kind, secret)], row


@WHOLE
def test_splits_in_two_give_the_output_of_the_whole(scanner: Scanner, rows: list[Detector]) -> None:
    """A tenth of the splits, and short chunks; test_every_split.py has all splits."""
    for row in rows:
        before, secret, after = planted(row)
        text = f"so {before}{secret}{after} is"
        out = redacted(scanner, text)
        splits = range(1 + len(secret) % 10, len(text), 10)
        assert [at for at in splits if redacted(scanner, text[:at], text[at:]) != out] == [], row
        assert redacted(scanner, *(text[at : at + 4] for at in range(0, len(text), 4))) == out, row


@WHOLE
def test_a_key_is_found_however_its_line_is_printed(scanner: Scanner, rows: list[Detector]) -> None:
    for row, (name, line) in product(rows, LINES.items()):
        before, secret, after = planted(row)
        text = line.format(f"{before}{secret}{after}") + "\n"
        assert secret not in redacted(scanner, text), (row, name)
        begun = text.index(secret) + 5
        assert secret not in redacted(scanner, text[:begun], text[begun:]), (row, name)


@WHOLE
def test_a_key_is_found_in_json_and_in_json_in_json(scanner: Scanner, rows: list[Detector]) -> None:
    for row in rows:
        before, secret, after = planted(row, plain=True)
        text = f"{before}{secret}{after}"
        once = json.dumps({"note": f"first\n{text}\n"})
        assert secret not in redacted(scanner, once), row
        assert secret not in redacted(scanner, json.dumps({"body": once})), row
        value = {"command": f"curl -d {text} url", text: [{"x": text}]}
        assert secret not in str(Redaction(Search(scanner), mask).value(value)), row


@WHOLE
def test_a_key_in_pieces_of_arguments_is_found(rows: list[Detector]) -> None:
    for row in rows:
        before, secret, after = planted(row)
        text = f"run {before}{secret}{after} now"
        for at in range(1, len(text), 1 + len(text) // 6):
            assert secret not in _streamed(text[:at], text[at:]), row


def _streamed(*values: str) -> str:
    """What goes on of the arguments of a streamed call that come in these chunks."""
    screen = POLICY.screen(SessionContext("s-1"))
    steps = [
        screen.feed([_event(value, goes_on=place + 1 < len(values))], last=False)
        for place, value in enumerate(values)
    ]
    return "".join(
        each.get("stringValue", "")
        for step in [*steps, screen.feed([], last=True)]
        for _, body in step
        for part in body["candidates"][0]["content"]["parts"]
        for each in part["functionCall"].get("partialArgs", [])
    )


def _event(value: str, *, goes_on: bool) -> dict[str, Any]:
    partial = {"jsonPath": "$.command", "stringValue": value, "willContinue": goes_on}
    call = {"functionCall": {"name": "sh", "partialArgs": [partial], "willContinue": goes_on}}
    return {"candidates": [{"content": {"role": "model", "parts": [call]}, "index": 0}]}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("pk_live_51HxQm2Kq8ZtR4vWb7NcY3dLp", id="Stripe"),
        pytest.param("pk.eyJ1Ijoiam9lIiwiYSI6ImNqeDcifQ.Qm2Kq8ZtR4vWb7NcY3dLpA", id="Mapbox"),
        pytest.param("sb_publishable_Qm2Kq8ZtR4vWb7NcY3dLpA_x7Yq2Zt1", id="Supabase"),
        pytest.param("phc_Qm2Kq8ZtR4vWb7NcY3dLpAx7Yq2Zt1Qm2Kq8ZtR4vW", id="PostHog"),
        pytest.param("sq0idp-Qm2Kq8ZtR4vWb7NcY3dLpA", id="Square"),
        pytest.param("pubkey-4d2f64e2a108cd72f648b1984c3b5a13", id="Mailgun"),
        pytest.param("AC4d2f64e2a108cd72f648b1984c3b5a13", id="Twilio"),
        pytest.param("194206074328-qdv6fi3eh31q6h7c35vs.apps.googleusercontent.com", id="Google"),
        pytest.param("https://4d2f64e2a108cd72f648b1984c3b5a13@o42.ingest.sentry.io/7", id="Sentry"),
    ],
)
def test_what_is_public_by_design_stays(text: str) -> None:
    alone = shared_scanner(CREDENTIALS)
    assert redacted(alone, f"so {text} is") == f"so {text} is"


@pytest.mark.parametrize(
    "text",
    [
        "ghp_" + "x" * 36,
        "sk-ant-api03-your_key_here_your_key_here",
        "xoxb-000000000000-000000000000-xxxxxxxxxxxxxxxxxxxxxxxx",
        "glpat-********************",
        "license_key = 'abcdefghij0123456789'",
        "asana: your_token_goes_here_1234",
    ],
)
def test_placeholders_stay(scanner: Scanner, text: str) -> None:
    assert redacted(scanner, f"so {text} is") == f"so {text} is"


@pytest.mark.parametrize("key", ["AKIA" + "IOSFODNN7EXAMPLE", "AIza" + "SyB1234567890abcdefghijklmnopqrstuv"])
def test_made_up_keys_are_replaced_like_any_other(scanner: Scanner, key: str) -> None:
    assert key not in redacted(scanner, f"so {key} is")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("clarifai SECRET qHL49dId5skLfBjsf342RJkd", id="blank"),
        pytest.param("helpcrunch access key qHL49dId5skLfBjsf342RJkd", id="words"),
        pytest.param("urlscan-access-token-key-7654ba98-1234-4def-8678-9012b3c4d5f6", id="dashes"),
        pytest.param("X-Api-Key: qHL49dId5skLfBjsf342RJkd", id="header"),
        pytest.param("blogger_KEY,'qHL49dId5skLfBjsf342RJkd'", id="comma"),
        pytest.param('variable "sso_token" {\n  default = "qHL49dId5skLfBjsf342RJkd"\n}', id="Terraform"),
        pytest.param("private key\n    qHL49dId5skLfBjsf342RJkd", id="next line"),
        pytest.param("owm = '3e144a5af729351d0fc58bd4a9a21afe'", id="service alone"),
        pytest.param("jira_pat=VDOheDe1sSCeGkuTARhkFDE2", id="pat"),
        pytest.param('client.setApiKey("qHL49dId5skLfBjsf342RJkd")', id="call"),
        pytest.param('os.environ["API_KEY"] = "qHL49dId5skLfBjsf342RJkd"', id="item"),
        pytest.param('{"name": "API_KEY", "value": "qHL49dId5skLfBjsf342RJkd"}', id="name and value"),
        pytest.param("- name: API_KEY\n  value: qHL49dId5skLfBjsf342RJkd", id="name and value in YAML"),
        pytest.param('<add key="ApiKey" value="qHL49dId5skLfBjsf342RJkd" />', id="name and value in XML"),
        pytest.param("<apiKey>qHL49dId5skLfBjsf342RJkd</apiKey>", id="XML"),
        pytest.param("| API key | `qHL49dId5skLfBjsf342RJkd` |", id="table"),
    ],
)
def test_a_random_value_near_a_telling_word_is_found_at_every_split(scanner: Scanner, text: str) -> None:
    secret = max(re.findall("[A-Za-z0-9-]{16,}", text.replace("urlscan-access-token-key-", "")), key=len)
    out = redacted(scanner, text)
    assert secret not in out
    assert {redacted(scanner, text[:at], text[at:]) for at in range(len(text))} == {out}


@pytest.mark.parametrize(
    "text",
    [
        "key = some_function_name_of_module_2(x)",
        "sort key 2026-11-05T10:20:30.123456Z",
        "cache key: test_base64_encoding_of_strings",
        "primary key users_organization_id_1_index",
        "the key-value-store-version-12-of-things",
        "token.value1.attribute2.something3",
        "github.com/organization/repository2name",
        "access level2requires.administrators",
    ],
)
def test_words_and_identifiers_near_a_telling_word_stay(scanner: Scanner, text: str) -> None:
    assert redacted(scanner, text) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("acme_sk_qHL49dId5skLfBjsf342RJkd", "PREFIXED_KEY", id="prefix"),
        pytest.param("acme_api_v1_qHL49dId5skLfBjsf342RJkd", "PREFIXED_KEY", id="with a version"),
        pytest.param("acme_pat_4d2f64e2a108cd72f648b1984c3b5a13", "PREFIXED_KEY", id="hexadecimal"),
        pytest.param("viewneo: 'qHL49dId5skLfBjsf342RJkd'", "VENDOR_KEY", id="service"),
        pytest.param("adafruit_io = 'qHL49dId5skLfBjsf342RJkd'", "VENDOR_KEY", id="service in two words"),
        pytest.param("message bird = 'qHL49dId5skLfBjsf342RJkd'", "VENDOR_KEY", id="with a blank"),
        pytest.param("sendgrid.prod.v2 => 'qHL49dId5skLfBjsf342RJkd'", "VENDOR_KEY", id="service and more"),
        pytest.param('jira_key = "QxzBvWkjTrLmPqHsGdFnZcXv"', "NAMED_KEY", id="letters"),
    ],
)
def test_keys_in_formats_of_nobody_s_are_found(scanner: Scanner, text: str, kind: str) -> None:
    found = [
        fragment
        for fragment in fragments(scanner, [f"so {text} is"])
        if isinstance(fragment, ReplacedFragment)
    ]
    assert [fragment.kind for fragment in found] == [kind]
    out = redacted(scanner, text)
    assert {redacted(scanner, text[:at], text[at:]) for at in range(len(text))} == {out}


@pytest.mark.parametrize(
    "text",
    [
        "api-deployment-7f9c6d5b48-x7k2p",
        "auth-service-7f9c6d5b48-x7k2p.default.svc",
        "registry/shop:api-3e144a5af729351d0fc58bd4a9a21afe5c1d0f77",
        "cache access_4d2f64e2a108cd72f648b1984c3b5a13",
        "resp_68a1f0c2d4e8819db7a0c3e5f7192b3d04c6e8fa12345678",
        "toolu_01A09q90qw90lq917835lq9",
        "call_q7Kz3xY9Lm2Qv8Rt4Wb6Nc1D",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
        "org_2NfYB9vL7qXk3mT5sR8wZ1cD4g",
        "pk_live_51HxQm2Kq8ZtR4vWb7NcY3dLp",
        "github_sha=3e144a5af729351d0fc58bd4a9a21afe5c1d0f77",
        "test_access_token_is_refreshed_after_expiry_of_30_minutes",
        "access_policy_for_organization_administrators_v2",
        'key = "getAccessTokenFromRequestHeaderOrThrow"',
        'token: "AuthenticationServiceInterface"',
        'password_key = "INTERNATIONALIZATIONSETTINGS"',
    ],
)
def test_identifiers_that_look_like_prefixed_keys_stay(scanner: Scanner, text: str) -> None:
    assert redacted(scanner, f"so {text} is") == f"so {text} is"


@pytest.mark.parametrize("ending", [b"", b"\x01"], ids=["plain", "compressed"])
def test_a_bitcoin_key_is_found_by_its_checksum(scanner: Scanner, ending: bytes) -> None:
    data = b"\x80" + random.Random(5).randbytes(32) + ending  # noqa: S311  # a made-up key
    data += sha256(sha256(data).digest()).digest()[:4]
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + text
    assert redacted(scanner, f"so {text} is") == "so [BITCOIN_KEY] is"
    assert redacted(scanner, *f"so {text} is") == "so [BITCOIN_KEY] is"
    wrong = text[:-1] + ("2" if text[-1] == "1" else "1")
    assert redacted(scanner, f"so {wrong} is") == f"so {wrong} is"
