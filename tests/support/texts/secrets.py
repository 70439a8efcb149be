"""Made-up secrets of every kind with right check digits, texts to plant them in, and look-alikes."""

import base64
import json
import random
import string
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from hookgate.hooks.policies.redact import AtCap, Fragment, Scanner, TextRedactor

from .national import NATIONAL_NUMBERS

ALNUM = string.ascii_letters + string.digits
UPPER32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
URL64 = ALNUM + "-_"

Make = Callable[[random.Random], str]


def some(rnd: random.Random, alphabet: str, count: int) -> str:
    return "".join(rnd.choices(alphabet, k=count))


def digits(rnd: random.Random, count: int) -> str:
    return some(rnd, string.digits, count)


def mixed(rnd: random.Random, count: int, alphabet: str = ALNUM) -> str:
    """Letters of both cases with a digit at two places: what a generator of passwords gives."""
    return f"q{some(rnd, alphabet, count - 5)}7Kz3"


def one_of(numbers: Sequence[str], rnd: random.Random) -> str:
    return rnd.choice(numbers)


def hookgate_key(rnd: random.Random) -> str:
    text = f"hgk_{some(rnd, UPPER32.lower(), 10)}_{some(rnd, ALNUM, 43)}"
    number, checksum = zlib.crc32(text.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        checksum = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[digit] + checksum
    return text + checksum


def luhn_digit(head: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(head)):
        total += sum(divmod(int(digit) * 2, 10)) if place % 2 == 0 else int(digit)
    return str(-total % 10)


def card(rnd: random.Random) -> str:
    prefix, length = rnd.choice([("4", 16), ("53", 16), ("2305", 16), ("37", 15), ("6011", 16), ("3530", 16)])
    head = prefix + digits(rnd, length - len(prefix) - 1)
    number = head + luhn_digit(head)
    groups = (
        [number[i : i + 4] for i in range(0, 16, 4)]
        if length == 16
        else [number[:4], number[4:10], number[10:]]
    )
    return rnd.choice(["", " ", "-"]).join(groups)


def iban(rnd: random.Random) -> str:
    country, form = rnd.choice(
        [("DE", "d" * 18), ("GB", "AAAA" + "d" * 14), ("NL", "AAAA" + "d" * 10), ("NO", "d" * 11)]
    )
    body = "".join(rnd.choice(string.digits if c == "d" else string.ascii_uppercase) for c in form)
    number = int("".join(str(int(c, 36)) for c in f"{body}{country}00"))
    packed = f"{country}{98 - number % 97:02}{body}"
    spaced = " ".join(packed[i : i + 4] for i in range(0, len(packed), 4))
    return rnd.choice([packed, spaced])


def german_tax_id(rnd: random.Random) -> str:
    while True:
        ten = rnd.sample(string.digits, 9)
        ten.insert(rnd.randrange(1, 10), ten[0])
        if ten[0] != "0":
            break
    product = 10
    for digit in ten:
        rest = (int(digit) + product) % 10
        product = (rest if rest else 10) * 2 % 11
    return "".join(ten) + str((11 - product) % 10)


def nir(rnd: random.Random) -> str:
    born = f"{rnd.choice('12')}{rnd.randrange(100):02}{rnd.randrange(1, 13):02}"
    head = f"{born}{rnd.randrange(1, 96):02}{digits(rnd, 6)}"
    return f"{head}{97 - int(head) % 97:02}"


def dni(rnd: random.Random) -> str:
    number = rnd.randrange(10**7, 10**8)
    return f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def nie(rnd: random.Random) -> str:
    first, number = rnd.randrange(3), rnd.randrange(10**6, 10**7)
    return f"{'XYZ'[first]}{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[(first * 10**7 + number) % 23]}"


def bsn(rnd: random.Random) -> str:
    while True:
        head = digits(rnd, 8)
        last = sum(int(d) * (9 - i) for i, d in enumerate(head)) % 11
        if last < 10 and head.strip("0"):
            return f"{head}{last}"


def aadhaar(rnd: random.Random) -> str:
    """The last digit is tried: Verhoeff's scheme is written anew here, by its group of symmetries."""
    head = rnd.choice("23456789") + digits(rnd, 10)
    number = next(head + last for last in string.digits if _verhoeff(head + last) == 0)
    return f"{number[:4]} {number[4:8]} {number[8:]}"


def _verhoeff(number: str) -> int:
    check, step = 0, (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)
    for place, character in enumerate(reversed(number)):
        digit = int(character)
        for _ in range(place % 8):
            digit = step[digit]
        check = _dihedral(check, digit)
    return check


def _dihedral(a: int, b: int) -> int:
    if a < 5:
        return (a + b) % 5 if b < 5 else (a + b) % 5 + 5
    return (a - b) % 5 + 5 if b < 5 else (a - b) % 5


def cpf(rnd: random.Random) -> str:
    number = "1" + digits(rnd, 8)
    for _ in range(2):
        weighted = sum(int(d) * w for d, w in zip(reversed(number), range(2, 12), strict=False))
        number += str((11 - weighted % 11) % 11 % 10)
    return f"{number[:3]}.{number[3:6]}.{number[6:9]}-{number[9:]}"


def jwt(rnd: random.Random) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": digits(rnd, 10), "iat": rnd.randrange(10**9)}]
    shown = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*shown, some(rnd, URL64[:-2], 43)])


def pem(rnd: random.Random) -> str:
    kind = rnd.choice(["RSA ", "EC ", "OPENSSH ", ""])
    newline = rnd.choice(["\n", "\\n", "\r\n"])
    lines = ["".join(rnd.choices(ALNUM + "+/", k=64)) for _ in range(rnd.randrange(3, 8))]
    lines = [
        f"-----BEGIN {kind}PRIVATE KEY-----",
        *lines,
        some(rnd, ALNUM, 20) + "==",
        f"-----END {kind}PRIVATE KEY-----",
    ]
    return newline.join(lines)


def nino(rnd: random.Random) -> str:
    return f"{rnd.choice(['AB', 'CE', 'JG', 'PX'])}{digits(rnd, 6)}{rnd.choice('ABCD')}"


def ssn(rnd: random.Random) -> str:
    return f"{rnd.randrange(1, 666):03}-{rnd.randrange(1, 100):02}-{rnd.randrange(1, 10000):04}"


def email(rnd: random.Random) -> str:
    name = rnd.choice(["jane.doe", "j_smith", "o'neill", "info+tag", "x"])
    return f"{name}{rnd.randrange(100)}@{rnd.choice(['example.com', 'mail.example.co.uk', 'firma-x.de'])}"


def phone(rnd: random.Random) -> str:
    return rnd.choice(
        [
            f"+49 30 {digits(rnd, 4)} {digits(rnd, 4)}",
            f"+49170{digits(rnd, 7)}",
            f"+44 20 {digits(rnd, 4)} {digits(rnd, 4)}",
            f"+1 (4{digits(rnd, 2)}) 55{rnd.choice('23')}-{digits(rnd, 4)}",
            f"(4{rnd.randrange(20, 99)}) 55{rnd.choice('23')}-{digits(rnd, 4)}",
            f"4{rnd.randrange(20, 99)}-55{rnd.choice('23')}-{digits(rnd, 4)}",
        ]
    )


PLANTED: dict[str, tuple[str, str, Make]] = {
    # label: text before, text after, the secret
    "PRIVATE_KEY": ("", "", pem),
    "AWS_ACCESS_KEY": ("", "", lambda r: "AKIA" + some(r, UPPER32, 16)),
    "GITHUB_TOKEN": ("", "", lambda r: f"gh{r.choice('pousr')}_{some(r, ALNUM, 36)}"),
    "GITHUB_TOKEN fine": ("", "", lambda r: f"github_pat_{some(r, ALNUM, 22)}_{some(r, ALNUM, 59)}"),
    "GITLAB_TOKEN": ("", "", lambda r: "glpat-" + some(r, ALNUM, 20)),
    "GOOGLE_API_KEY": ("", "", lambda r: "AIza" + some(r, URL64, 34) + "x"),
    "GOOGLE_OAUTH": ("", "", lambda r: "ya29." + some(r, ALNUM, 60)),
    "HOOKGATE_KEY": ("", "", hookgate_key),
    "SLACK_TOKEN": ("", "", lambda r: f"xoxb-{digits(r, 12)}-{digits(r, 12)}-{some(r, ALNUM, 24)}"),
    "SLACK_WEBHOOK": (
        "https://hooks.slack.com/services/",
        "",
        lambda r: f"T{some(r, UPPER32, 8)}/B{some(r, UPPER32, 10)}/{some(r, ALNUM, 24)}",
    ),
    "STRIPE_KEY": ("", "", lambda r: "sk_live_" + some(r, ALNUM, 24)),
    "ANTHROPIC_KEY": ("", "", lambda r: "sk-ant-api03-" + some(r, URL64, 94) + "A"),
    "OPENROUTER_KEY": ("", "", lambda r: "sk-or-v1-" + some(r, HEX, 64)),
    "OPENAI_KEY": ("", "", lambda r: "sk-" + some(r, ALNUM, 20) + "T3BlbkFJ" + some(r, ALNUM, 20)),
    "OPENAI_KEY project": ("", "", lambda r: f"sk-proj-{some(r, URL64, 73)}aT3BlbkFJ{some(r, URL64, 73)}a"),
    "NPM_TOKEN": ("", "", lambda r: "npm_" + some(r, ALNUM, 36)),
    "PYPI_TOKEN": ("", "", lambda r: "pypi-AgEIcHlwaS5vcmc" + some(r, URL64, 120) + "x"),
    "HUGGINGFACE_TOKEN": ("", "", lambda r: "hf_" + some(r, string.ascii_letters, 34)),
    "GROQ_KEY": ("", "", lambda r: "gsk_" + some(r, ALNUM, 52)),
    "XAI_KEY": ("", "", lambda r: "xai-" + some(r, ALNUM, 80)),
    "SENDGRID_KEY": ("", "", lambda r: f"SG.{some(r, URL64, 22)}.{some(r, URL64, 42)}x"),
    "DIGITALOCEAN_TOKEN": ("", "", lambda r: "dop_v1_" + some(r, HEX, 64)),
    "VAULT_TOKEN": ("", "", lambda r: "hvs." + some(r, ALNUM, 90)),
    "DOCKER_TOKEN": ("", "", lambda r: "dckr_pat_" + some(r, ALNUM, 27)),
    "SHOPIFY_TOKEN": ("", "", lambda r: "shpat_" + some(r, HEX, 32)),
    "AZURE_KEY": ("AccountName=x;AccountKey=", "", lambda r: some(r, ALNUM + "+/", 86) + "=="),
    "KUBERNETES_SECRET": (
        "data:\n  key: ",
        "\nkind: Secret",
        lambda r: base64.b64encode(mixed(r, 20).encode()).decode(),
    ),
    "JWT": ("", "", jwt),
    "CONNECTION_STRING": ("postgresql+asyncpg://app:", "@db.example:5432/app", lambda r: mixed(r, 14)),
    "BEARER": ("Authorization: Bearer ", "", lambda r: mixed(r, 40)),
    "BASIC_AUTH": ("Authorization: Basic ", "", lambda r: base64.b64encode(mixed(r, 20).encode()).decode()),
    "ASSIGNMENT json": ('{"db_password": "', '"}', lambda r: mixed(r, 12, ALNUM + "!#$%&*,;")),
    "ASSIGNMENT quoted json": ('{\\"apiKey\\": \\"', '\\"}', lambda r: mixed(r, 32)),
    "ASSIGNMENT env": ("AWS_SECRET_ACCESS_KEY=", "", lambda r: mixed(r, 40, ALNUM + "/+")),
    "ASSIGNMENT yaml": ("client_secret: ", "", lambda r: mixed(r, 20)),
    "NAMED_KEY": ("license_key = ", "", lambda r: mixed(r, 32)),
    "PREFIXED_KEY": ("acme_", "", lambda r: "sk_" + mixed(r, 32)),
    "VENDOR_KEY": ("asana: ", "", lambda r: some(r, HEX, 31) + "a"),
    "CURL_PASSWORD": ('CURLOPT_PASSWORD, "', '"', lambda r: mixed(r, 14)),
    "SECURE_STRING": ('ConvertTo-SecureString "', '"', lambda r: mixed(r, 14)),
    "SQL_PASSWORD": ("IDENTIFIED BY '", "'", lambda r: mixed(r, 14)),
    "COMMAND_PASSWORD": ("--password ", " ", lambda r: mixed(r, 14)),
    "COMMAND_PASSWORD curl": ("curl -u joe:", " ", lambda r: mixed(r, 14)),
    "NETRC": ("login joe password ", "", lambda r: mixed(r, 14)),
    "EMAIL": ("", "", email),
    "CARD": ("", "", card),
    "IBAN": ("", "", iban),
    "PHONE": ("", "", phone),
    "US_SSN": ("", "", ssn),
    "UK_NINO": ("", "", nino),
    "DE_TAX_ID": ("", "", german_tax_id),
    "FR_NIR": ("", "", nir),
    "ES_DNI": ("", "", dni),
    "ES_NIE": ("", "", nie),
    "NL_BSN": ("BSN: ", "", bsn),
    "IN_AADHAAR": ("", "", aadhaar),
    "BR_CPF": ("", "", cpf),
    **{
        label: (before, "", partial(one_of, numbers)) for label, (before, numbers) in NATIONAL_NUMBERS.items()
    },
}
"""By label, whose first word is the kind: what stands before and behind, and how one is made."""

WORDS = [
    *(
        "the",
        "gateway",
        "reads",
        "what",
        "an",
        "agent",
        "asks",
        "and",
        "a",
        "hook",
        "decides",
        "may",
        "pass;",
    ),
    *(
        "größer,",
        "naïve",
        "日本語",
        "—",
        "“so”",
        "it",
        "is.\n",
        "password",
        "reset",
        "token",
        "count",
        "words,",
    ),
    *("version", "2.14.0", "of", "2024-11-05T10:20:30Z", "costs", "12.50", "for", "3", "of", "100\n"),
]


def prose(rnd: random.Random, count: int) -> str:
    return " ".join(rnd.choices(WORDS, k=count))


def planted(seed: int, label: str) -> tuple[str, str]:
    """A text with one secret of that label in it, and the secret."""
    rnd = random.Random(seed)  # noqa: S311  # repeatable test texts
    before, after, make = PLANTED[label]
    secret = make(rnd)
    left, right = rnd.choice(
        [(" ", " "), ("\n", "\n"), ("(", ")"), ("„", "“"), ("é ", ", "), ('"', '"'), ("", "")]
    )
    text = (
        f"{prose(rnd, 6) if left else ''}{left}{before}{secret}{after}{right}{prose(rnd, 6) if right else ''}"
    )
    return text, secret


LOOKALIKES: dict[str, Make] = {
    "git hash": lambda r: some(r, HEX, 40),
    "short hash": lambda r: some(r, HEX, 7),
    "uuid": lambda r: str(uuid.UUID(int=r.getrandbits(128))),
    "image": lambda r: "data:image/png;base64," + base64.b64encode(r.randbytes(3000)).decode(),
    "thought signature": lambda r: base64.b64encode(r.randbytes(900)).decode(),
    "integrity": lambda r: f'"integrity": "sha512-{base64.b64encode(r.randbytes(64)).decode()}"',
    "minified code": lambda r: "".join(
        f"var {some(r, 'abcdef', 2)}=function(t,e){{return t.n{r.randrange(99)}(e,{r.randrange(9999)})}};"
        for _ in range(20)
    ),
    "version": lambda r: (
        f"package@{r.randrange(30)}.{r.randrange(99)}.{r.randrange(99)}-beta.{r.randrange(9)}"
    ),
    "timestamp": lambda r: str(1_500_000_000_000 + r.randrange(300_000_000_000)),
    "nanoseconds": lambda r: str(1_500_000_000_000_000_000 + r.randrange(10**17)),
    "iso time": lambda r: f"20{r.randrange(10, 30)}-11-{r.randrange(1, 29):02}T10:20:00.{digits(r, 6)}+02:00",
    "order number": lambda r: f"order {digits(r, 4)}-{digits(r, 7)}-{digits(r, 7)}",
    "eleven digits": lambda r: "1" + digits(r, 10),
    "float": lambda r: repr(r.random() * 1000),
    "vector": lambda r: ", ".join(repr(r.random()) for _ in range(50)),
    "code": lambda r: (
        f"token = self.tokens[{r.randrange(99)}]; password: str | None = None; secret = get_secret2(name)"
    ),
    "environment": lambda r: (
        'api_key=os.environ["API_KEY_2"], token="${TOKEN_1}", password="your-password-1"'
    ),
    "limits": lambda r: f'"maxOutputTokens": {r.randrange(99999)}, "totalTokenCount": {r.randrange(10**9)}',
    "path": lambda r: (
        f"/usr/lib/python3.{r.randrange(9)}/site-packages/x{r.randrange(99)}.py:{r.randrange(999)}"
    ),
    "address": lambda r: f"https://host.example:8443/a/b?c={r.randrange(999)}#l{r.randrange(99)}",
    "git remote": lambda r: f"git@github.com:org/repo{r.randrange(99)}.git",
    "retina image": lambda r: f"icon-{r.randrange(99)}@2x.png",
    "kebab": lambda r: "sk-learn-model-selection-cross-validation-utilities-version-two",
    "public key": lambda r: f"-----BEGIN PUBLIC KEY-----\n{some(r, ALNUM, 64)}\n-----END PUBLIC KEY-----",
    "sixteen digits": lambda r: digits(r, 16),
}
"""What is no secret, by name."""


def mask(kind: str, _: str) -> str:
    return f"[{kind}]"


def fragments(
    scanner: Scanner, chunks: Iterable[str], cap: int = 8192, at_cap: AtCap = "mask"
) -> list[Fragment]:
    """What becomes of a text that comes in these chunks."""
    redactor = TextRedactor(scanner, mask, cap, at_cap)
    return [*(fragment for chunk in chunks for fragment in redactor.feed(chunk)), *redactor.finish()]


def redacted(scanner: Scanner, *chunks: str, cap: int = 8192, at_cap: AtCap = "mask") -> str:
    """What goes out of a text that comes in these chunks."""
    return "".join(fragment.output for fragment in fragments(scanner, chunks, cap, at_cap))


def cut(rnd: random.Random, text: str, longest: int = 12) -> list[str]:
    """The text in chunks of random lengths, an empty one now and then."""
    chunks, at = [], 0
    while at < len(text):
        step = rnd.randrange(longest + 1)
        chunks.append(text[at : at + step])
        at += step
    return chunks
