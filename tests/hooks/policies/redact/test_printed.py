"""Secrets as tools print them: numbered and prefixed lines, and text with escapes before a secret."""

import base64
import json
import random
from collections.abc import Callable, Sequence

import pytest
from support.texts.secrets import PLANTED, cut, mask, planted, redacted

from hookgate.hooks.policies.redact import Scanner
from hookgate.hooks.policies.redact.redaction import Redaction, Search

Print = Callable[[Sequence[str]], str]


def key_lines(rnd: random.Random, sort: str, size: int) -> list[str]:
    """The lines of a private key, with `size` bytes in it."""
    body = base64.b64encode(rnd.randbytes(size)).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return [f"-----BEGIN {sort}PRIVATE KEY-----", *lines, f"-----END {sort}PRIVATE KEY-----"]


def numbered(form: str) -> Print:
    return lambda lines: "".join(form.format(n, line) + "\n" for n, line in enumerate(lines, 1))


PRINTED: dict[str, Print] = {
    "cat -n": numbered("{:6}\t{}"),
    "arrow": numbered("{}→{}"),
    "grep -n": numbered("deploy/tls/k.pem:{}:{}"),
    "grep -C": numbered("k.pem-{}-{}"),
    "diff -": numbered("-{1}"),
    "diff +": numbered("+{1}"),
    "quoted mail": numbered("> {1}"),
    "comment": numbered("# {1}"),
    "code comment": numbered("// {1}"),
    "compose": numbered("app_1  | {1}"),
    "list": numbered("{}. {}"),
    "yaml block": lambda lines: "key: |\n" + numbered("      {1}")(lines),
    "pod log": numbered("2024-11-05T10:20:30.{:09}Z stdout F {}"),
    "colored grep": numbered("\x1b[35mk.pem\x1b[m\x1b[36m:\x1b[m\x1b[32m{}\x1b[m\x1b[36m:\x1b[m{}"),
    "concatenation": lambda lines: " +\n  ".join(f'"{line}\\n"' for line in lines),
    "json list": json.dumps,
    "html": "<br>".join,
    "character references": "&#10;".join,
    "percent": lambda lines: "%0A".join(lines).replace("+", "%2B").replace("=", "%3D").replace(" ", "%20"),
    "escaped": "\\n".join,
    "escaped twice": "\\\\n".join,
    "slashes escaped": lambda lines: json.dumps("\n".join(lines)).replace("/", "\\/"),
    "no line ends": "".join,
    "no END line": lambda lines: numbered("{:6}\t{}")(lines[:-1]),
}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in PRINTED])
@pytest.mark.parametrize("sort", ["", "RSA ", "OPENSSH "])
def test_a_private_key_is_found_however_its_lines_are_printed(scanner: Scanner, name: str, sort: str) -> None:
    rnd = random.Random(f"{name}{sort}")  # noqa: S311  # it makes texts
    for size in (48, 121, 1190, 2350) if sort == "RSA " else (121, 1190):
        lines = key_lines(rnd, sort, size)
        text = f"here:\n{PRINTED[name](lines)}\nand so on."
        out = redacted(scanner, text)
        assert [line for line in lines[1:-1] if len(line) > 20 and line[:20] in out] == []
        assert out.endswith("and so on.")
        assert redacted(scanner, *cut(rnd, text, 90)) == out


def test_a_printed_key_over_the_cap_is_dropped_to_its_end(scanner: Scanner) -> None:
    lines = key_lines(random.Random(1), "RSA ", 9000)  # noqa: S311  # it makes texts
    text = f"{PRINTED['compose'](lines)}and so on."
    for step in (1000, 10**6):
        out = redacted(scanner, *[text[at : at + step] for at in range(0, len(text), step)])
        assert out == "app_1  | [PRIVATE_KEY]\nand so on."


def test_what_follows_a_key_stays(scanner: Scanner) -> None:
    lines = key_lines(random.Random(2), "", 121)  # noqa: S311  # it makes texts
    certificate = (
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ7Wd0cKpFv0Z1yJ1k9h\n-----END CERTIFICATE-----"
    )
    text = "\n".join([*lines, certificate])
    assert redacted(scanner, text) == f"[PRIVATE_KEY]\n{certificate}"


def test_a_key_whose_lines_are_torn_is_found_at_every_split(scanner: Scanner) -> None:
    """Lines may be shorter than a run, and have small letters alone."""
    begin, end = (f"-----{word} RSA PRIVATE KEY-----" for word in ("BEGIN", "END"))
    text = "\n".join(
        [begin, "", "q7kz", "w2lnx5rt8vd1m", "c4pb9yh3gj6fs0qz7kxw", "+t5m", "v8rd2nl4" * 3, end]
    )
    assert redacted(scanner, text) == "[PRIVATE_KEY]"
    assert {redacted(scanner, text[:at], text[at:]) for at in range(len(text))} == {"[PRIVATE_KEY]"}


BEHIND = {
    "line end": ("\\n", "\\n"),
    "line end, twice": ("\\\\n", "\\\\n"),
    "tab": ("\\t", "\\t"),
    "return": ("\\r", "\\r"),
    "quote": ('\\"', '\\"'),
    "quote by its number": ("\\u0022", "\\u0022"),
    "equals by its number": ("\\u003d", " "),
    "blank in an address": ("?q=%20", "%20"),
    "blank, escaped twice": ("?q=%2520", "%2520"),
    "color": ("\x1b[31m", "\x1b[0m"),
    "color in JSON": ("\\u001b[1;31m", "\\u001b[0m"),
    "color in a string": ("\\x1b[1;31m", "\\x1b[0m"),
    "reference": ("&quot;", "&quot;"),
    "emphasis": ("_", "_"),
    "strong": ("__", "__"),
    "bold": ("**", "**"),
}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in BEHIND])
def test_a_secret_right_behind_an_escape_is_found(scanner: Scanner, name: str) -> None:
    before, after = BEHIND[name]
    for label in PLANTED:
        text, secret = planted(11, label)
        text = f"say {before}{text[text.index(PLANTED[label][0] + secret) :].rstrip()}"
        text = text[: text.index(secret) + len(secret + PLANTED[label][1])] + after
        out = redacted(scanner, text)
        assert secret not in out, text
        # Behind its beginning, a secret is like any other: test_held.py has those in every split.
        begun = text.index(secret) + 8
        assert redacted(scanner, *text[:begun], text[begun:]) == out, text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param("no 4111\u00a01111\u00a01111\u00a01111", "no [CARD]", id="card with hard blanks"),
        pytest.param("to DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000", "to [IBAN]", id="account"),
        pytest.param(
            "to DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00", "to [IBAN]", id="narrow blanks"
        ),
        pytest.param("to de89370400440532013000", "to [IBAN]", id="account in small letters"),
        pytest.param("to gb82 west 1234 5698 7654 32", "to [IBAN]", id="the same in groups"),
        pytest.param("at +4915 123 456 78", "at [PHONE]", id="telephone with the area at the country"),
        pytest.param("at +4915\u00a0123\u00a045678", "at [PHONE]", id="telephone with hard blanks"),
        pytest.param("to jürgen@example.com", "to [EMAIL]", id="address with an umlaut"),
        pytest.param("to jane@müller-example.de", "to [EMAIL]", id="domain with an umlaut"),
        pytest.param("-1\n+jane+x@example.com", "-1\n+[EMAIL]", id="address on a line of a diff"),
        pytest.param("...jane@example.com", "...[EMAIL]", id="address behind dots"),
    ],
)
def test_personal_data_is_found_as_people_write_it(scanner: Scanner, text: str, masked: str) -> None:
    assert redacted(scanner, text) == masked
    assert redacted(scanner, *text) == masked


def test_an_escape_before_an_address_stays_whole(scanner: Scanner) -> None:
    assert redacted(scanner, '{\\"to\\":\\"a\\njane@example.com\\"}') == '{\\"to\\":\\"a\\n[EMAIL]\\"}'


def test_a_secret_behind_a_lone_surrogate_is_found(scanner: Scanner) -> None:
    assert redacted(scanner, "\ud800AKIAQV6MAVZOBM6SYC7Q") == "\ud800[AWS_ACCESS_KEY]"


WRITTEN = {
    "ampersand": ("password=", "kR9&vq82Lm#x", " "),
    "parenthesis": ("password=", "kR9(vq82Lm", ""),
    "brackets": ("DB_PASSWORD=", "kR9[vq82Lm]x", "\n"),
    "all signs": ("PASSWORD=", "k\"R9!$%&'()*+,-./:;<=>?@[]^_`{|}~x", "\n"),
    "many blanks": (f"password:{' ' * 30}", "kR9vq82Lmx", " "),
    "hard blanks": ("SECRET_KEY\u00a0=\u00a0", "kR9vq82Lmx", " "),
    "bold value": ("password: **", "kR9!vq82Lm#x", "**"),
    "bold name": ("**password**: ", "kR9!vq82Lm#x", "."),
    "bold name and colon": ("**password:** ", "kR9!vq82Lm#x", "."),
    "code": ("- `password`: `", "kR9!vq82Lm#x", "`"),
    "html": ("<b>password</b>: ", "kR9!vq82Lm#x", "<br>"),
    "bytes": ("password = b'", "kR9!vq82Lm#x", "'"),
    "list": ('"passwords": ["', "kR9!vq82Lm#x", '"]'),
    "json in json": ('{\\"password\\": \\"', "kR9!vq82Lm#x", '\\"}'),
    "json in json in json": ('{\\\\\\"password\\\\\\": \\\\\\"', "kR9!vq82Lm#x", '\\\\\\"}'),
    "quote in json": ('{"password": "', 'k\\"R9!vq82Lm#x', '"}'),
    "references": ("password&quot;: &quot;", "kR9!vq82Lm#x", "&quot;"),
    "percent": ("q?password%3D", "kR9vq82Lmx", "%26user%3Djoe"),
    "numbers of signs": ("\\u0022password\\u0022:\\u0022", "kR9!vq82Lm#x", "\\u0022"),
    "escaped line end": ("DB_PASSWORD=", "kR9!vq82Lm#x", "\\nUSER=joe"),
    "query": ("x?token=", "kR9vq82Lmx", "&user=joe"),
    "like a field": ("AUTH_TOKEN=", "._7d:&i0bq=;8O|{oVi~IwWv", "\n"),
    "like a field with a colon": ("APP_SECRET=", "Mxvh)#(Kf,xyCkeR;duIc:p8J", "\n"),
    "field in yaml": ("{password: ", "kR9!vq82Lm#x", ", user: joe}"),
    "like a name": ('adminPassword: "', "k9nJv$6smX.M", '",'),
    "like an address": ("APP_SECRET=", "d7cH:/?BvoL", "\n"),
    "like a format": ("AUTH_TOKEN: '", "{EhIJ!v[K)f%u)CS9^9UXa", "'"),
    "like a subscript": ("AUTH_TOKEN=", "0msr[1NDet|[FX>m!GZ]/x", "\n"),
    "like a call": ("API_KEY=", "uowlo(=Rh[UB@g^w%0B2c|VV", "\n"),
    "like a short field": ("APP_SECRET=", "e~E00&w5=~#KA", "\n"),
    "like a path": ('client_secret: "', "/v/^-Ag4bc/N9^3y3,d&X&^ZZ", '"'),
    "like a format with a colon": ("adminPassword=", "{o3gV:SBOe?<H~lp5:04>.5*1+D", "\n"),
    "like a template": ('client_secret: "', "%{33FaXX2^~=+k]%JLV", '",'),
    "fields": ("Server=x;Password=", "kR9!vq82Lm#x", ";Database=y"),
    "address with a number sign": ("postgres://app:", "p#ss[w0rd", "@host/x"),
    "address with slashes escaped": ("postgres:\\/\\/app:", "p4ssw0rd", "@host"),
    "bearer of one digit": ("Authorization: Bearer ", "abcdEFGHijklMNOPqrst0", "\n"),
    "bearer of another digit": ("Authorization: Bearer ", "abcdEFGHijklMNOPqrst9", "\n"),
    "bearer in a form": ("Authorization%3A%20Bearer%20", "abcdEFGH1234ijklMNOP5678", "%0A"),
}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in WRITTEN])
def test_a_value_is_found_however_it_is_written_and_nothing_else(scanner: Scanner, name: str) -> None:
    before, secret, after = WRITTEN[name]
    kind = {"address": "CONNECTION_STRING", "bearer": "BEARER"}.get(name.split(maxsplit=1)[0], "ASSIGNMENT")
    assert redacted(scanner, f"{before}{secret}{after}") == f"{before}[{kind}]{after}"
    assert redacted(scanner, *f"{before}{secret}{after}") == f"{before}[{kind}]{after}"


@pytest.mark.parametrize(
    "code",
    [
        "token = get_secret2(name)",
        "token=self.tokens[2]",
        "secret=base64.b64decode(value1)",
        "key = ed25519.Ed25519PrivateKey.from_private_bytes(secret)",
        'api_key=os.environ["API_KEY_2"]',
        "token: Optional[Token2] = None",
        "token_type: urn:ietf:params:oauth:token-type:id_token",
        "var token=null,n=e.length>1?e[0]:function(t){return t}",
    ],
)
def test_code_that_handles_secrets_stays(scanner: Scanner, code: str) -> None:
    assert redacted(scanner, code) == code


def test_a_secret_in_a_list_under_a_telling_name_is_found(scanner: Scanner) -> None:
    redaction = Redaction(Search(scanner), mask)
    value = {"passwords": ["kR9!vq82Lm#x", "plain"], "token": "k\"R9'vq82Lm#x", "notes": ["kR9!vq82Lm#x"]}
    assert redaction.value(value) == {
        "passwords": ["[ASSIGNMENT]", "plain"],
        "token": "[ASSIGNMENT]",
        "notes": ["kR9!vq82Lm#x"],
    }
    alone = Redaction(Search(scanner), mask).value({"passwords": ["kR9!vq82Lm#x"]})
    assert alone == {"passwords": ["[ASSIGNMENT]"]}


def test_a_card_that_is_a_number_is_found_whatever_its_sign(scanner: Scanner) -> None:
    redaction = Redaction(Search(scanner), mask)
    assert [redaction.value({"n": number})["n"] for number in (4111111111111111, -4111111111111111, 7)] == [
        "[CARD]",
        "-[CARD]",
        7,
    ]
