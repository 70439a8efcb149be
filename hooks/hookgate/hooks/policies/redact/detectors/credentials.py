"""Detectors of keys, tokens and passwords, in the formats that their issuers document."""

import re
from collections.abc import Callable

from hookgate.hooks.policies.redact.detectors.checks import is_hookgate_key
from hookgate.hooks.policies.redact.detectors.detector import WORD, WORD_END, Detector
from hookgate.hooks.policies.redact.detectors.values import MARK, VALUE, is_opaque, is_password, secret_in

_BLANK = r"(?: |\+|%20|&nbsp;|&#32;|\\{1,4}u0020)"
_NAME = rf"(?:{_BLANK}[A-Z0-9]{{2,12}}){{0,3}}{_BLANK}PRIVATE{_BLANK}KEY(?:{_BLANK}BLOCK)?-----"

BEGIN = f"-----BEGIN{_NAME}"
"""A pattern in RE2's syntax: the first line of a private key."""

_BEGIN = re.compile(BEGIN.encode())
_END = re.compile(f"-----END{_NAME}".encode())
_LONGEST_END = 120
_DASHES = b"-----"

# A run may contain escapes of the three characters of base64 that are not letters or digits.
_IN_RUN = (
    rb"(?:[A-Za-z0-9+/=]|\\{1,4}/|%2[BbFf]|%3[Dd]|\\{1,4}u00(?:2[BbFf]|3[Dd])"
    rb"|&#(?:x2[BbFf]|x3[Dd]|4[37]|61);)"
)
_RUN = re.compile(rb"(?<![A-Za-z0-9+/=])%s{16,}+" % _IN_RUN)
_REST_OF_RUN = re.compile(rb"%s*+" % _IN_RUN)
# A run may be short if there are only line ends before it, escaped or not.
_LINE_ENDS = re.compile(rb"(?:\s|\\{1,4}[nrt])*\\{0,4}")
_HEADERS = 400
"""The maximum number of bytes from the BEGIN line to the first run, for headers such as `Proc-Type`."""
_BETWEEN = 200
"""The maximum number of bytes between two runs, or between the last run and the END line."""
_RUN_LENGTH = 32


class KeyExtent:
    """Finds the end of a private key. Implements Extent."""

    head = b"-----BEGIN"

    def end(self, data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
        """Implement Extent.end; `begin` is the end of the BEGIN line, or 0 inside a key."""
        return _end_of_key(data, begin, end, final=final)

    def first_open(self, data: bytes, start: int) -> int | None:
        at = data.find(self.head, start)
        while at >= 0:
            position = at + len(self.head)
            if match := _BEGIN.match(data, at):
                position, decided = _end_of_key(data, match.end(), len(data), final=False)
                if not decided:
                    return at
            at = data.find(self.head, position)
        return None


def _end_of_key(data: bytes, begin: int, end: int, *, final: bool) -> tuple[int, bool]:
    last, max_gap = begin, _HEADERS
    if begin == 0:  # inside a key, and perhaps inside a run, of which any number of characters may be left
        rest = _REST_OF_RUN.match(data, 0, end)
        last, max_gap = rest.end() if rest else 0, _BETWEEN
        if last == end and not final:
            return last, False
    while run := _next_run(data, last, max_gap, end):
        is_key = _is_key_data(data, last, run)
        if run.end() == end and not final:
            return run.end() if is_key else last, False
        if not is_key:
            break
        last, max_gap = run.end(), _BETWEEN
    dashes = data.find(_DASHES, last, min(last + max_gap, end))
    if dashes < 0:
        return last, final or end >= last + max_gap + _RUN_LENGTH
    if 0 < last == begin:  # the next BEGIN or END line follows the BEGIN line immediately
        return last, True
    while data[dashes + len(_DASHES) : dashes + len(_DASHES) + 1] == b"-":  # added by diff or grep
        dashes += 1
    if closing := _END.match(data, dashes, end):
        return closing.end(), True
    return last, final or end - dashes >= _LONGEST_END


def _next_run(data: bytes, last: int, max_gap: int, end: int) -> "re.Match[bytes] | None":
    """Return the next run that belongs to the key, or that may continue after the text. Stops at `-----`."""
    window = min(last + max_gap, end)
    dashes = data.find(_DASHES, last, window)
    window = window if dashes < 0 else dashes
    at = last
    while start := _RUN.search(data, at, min(window + _RUN_LENGTH, end)):
        run = _RUN.match(data, start.start(), end)
        if run is None or run.start() >= window:
            return None
        if run.end() == end or _is_key_data(data, last, run):
            return run
        at = run.end()
    return None


def _is_key_data(data: bytes, last: int, run: "re.Match[bytes]") -> bool:
    if _LINE_ENDS.fullmatch(data, last, run.start()):
        return True
    text = run[0]
    return len(text) >= _RUN_LENGTH and text != text.lower() and text != text.upper()


_BASE64 = r"(?:[A-Za-z0-9+/=]|\\{1,7}/|%2[BbFf]|%3[Dd]|\\{1,7}u00(?:2[bBfF]|3[dD]))"
_NAME_BEFORE = (
    r"(?i:(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|"
    r"(?:api|access|private|auth|signing|encryption)[_-]?key)"
    r"s?(?:[_-][a-z0-9_-]{0,15}|\d{1,3}|[_-]?key)?)"
)
_GAP = r"(?:[ \t\xa0]|&nbsp;|%20){0,40}"
_SLASH = r"(?:\\{0,7}/|%2[Ff])"
_BLANKS = r"(?:[ \t\xa0+]|%20|&nbsp;|\\{1,4}u0020){1,4}"
_EQUALS = r"(?:=>|:=|=|:|%3[AaDd]|\\{1,7}u003[aAdD]|&#(?:58|61|x3[AaDd]);)"
_EMPHASIS = r"(?:[*_~]{1,3}|</?[a-z]{1,6}>)?"
_IS = rf"{MARK}{{0,4}}{_GAP}(?::[ \t]?[a-z]{{2,12}}[ \t]?)?{_EQUALS}{_EMPHASIS}{_GAP}"


def _issued(
    kind: str, pattern: str, check: Callable[[str], bool] | None = None, preceded_by: str = ""
) -> Detector:
    return Detector(kind, pattern, check, "credentials", preceded_by=preceded_by)


def _word(kind: str, pattern: str, check: Callable[[str], bool] | None = None) -> Detector:
    """Return a detector whose matches begin at the start of a word."""
    return _issued(kind, pattern, check, preceded_by=WORD)


CREDENTIALS: tuple[Detector, ...] = (
    Detector("PRIVATE_KEY", BEGIN, group="credentials", extent=KeyExtent()),
    _word("PRIVATE_KEY", rf"(AGE-SECRET-KEY-1[0-9A-Z]{{58}}){WORD_END}"),
    _word("AWS_ACCESS_KEY", rf"((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}){WORD_END}"),
    _word("GITHUB_TOKEN", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    _word("GITHUB_TOKEN", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59,}"),
    _word(
        "GITLAB_TOKEN",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?",
    ),
    _word("GOOGLE_API_KEY", r"AIza[A-Za-z0-9_-]{35,}"),
    _word("GOOGLE_API_KEY", r"AQ\.Ab[A-Za-z0-9_-]{30,}"),
    _word("GOOGLE_OAUTH", r"ya29\.[A-Za-z0-9_.-]{20,}"),
    _word("GOOGLE_OAUTH", r"GOCSPX-[A-Za-z0-9_-]{28,}"),
    _word("HOOKGATE_KEY", rf"(hgk_[a-z2-7]{{10}}_[A-Za-z0-9]{{49}}){WORD_END}", is_hookgate_key),
    _word("SLACK_TOKEN", r"xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    _word("SLACK_TOKEN", r"xapp-\d-[A-Za-z0-9-]{20,}"),
    _word(
        "SLACK_WEBHOOK",
        rf"hooks\.slack\.com{_SLASH}services{_SLASH}"
        rf"(T[A-Z0-9]{{7,14}}{_SLASH}B[A-Z0-9]{{7,14}}{_SLASH}[A-Za-z0-9]{{20,}})",
    ),
    _word("STRIPE_KEY", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    _word("STRIPE_KEY", r"whsec_[A-Za-z0-9+/]{32,}={0,2}"),
    _word("ANTHROPIC_KEY", r"sk-ant-[A-Za-z0-9_-]{24,}"),
    _word("OPENROUTER_KEY", rf"(sk-or-v1-[0-9a-f]{{64}}){WORD_END}"),
    _word("OPENAI_KEY", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    _word("OPENAI_KEY", r"sk-[A-Za-z0-9]{32,}"),
    _word("NPM_TOKEN", r"npm_[A-Za-z0-9]{36,}"),
    _word("PYPI_TOKEN", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _word("HUGGINGFACE_TOKEN", r"hf_[A-Za-z0-9]{34,}"),
    _word("GROQ_KEY", r"gsk_[A-Za-z0-9]{52,}"),
    _word("XAI_KEY", r"xai-[A-Za-z0-9]{80,}"),
    _word("SENDGRID_KEY", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43,}"),
    _word("DIGITALOCEAN_TOKEN", rf"(do[opr]_v1_[0-9a-f]{{64}}){WORD_END}"),
    _word("VAULT_TOKEN", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _word("DOCKER_TOKEN", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    _word("SHOPIFY_TOKEN", rf"(shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}){WORD_END}"),
    _word("AZURE_KEY", rf"(?i:AccountKey|SharedAccessKey){_EQUALS}({_BASE64}{{43,}})"),
    # The values of a Secret, from the first to the last; their position identifies them.
    _word(
        "KUBERNETES_SECRET",
        r"data:\n[ ]+[\w.-]+: (\"?[A-Za-z0-9+/]+={0,2}\"?(?:\n[ ]+[\w.-]+: \"?[A-Za-z0-9+/]*={0,2}\"?){0,40})"
        r"\n[ ]*(?:immutable: (?:true|false)\n[ ]*)?kind: Secret",
    ),
    _issued(
        "KUBERNETES_SECRET",
        r"data\\{0,7}\":\s*\{\s*\\{0,7}\"[\w.-]+\\{0,7}\":\s*\\{0,7}\""
        r"([A-Za-z0-9+/]+={0,2}(?:\\{0,7}\",\s*\\{0,7}\"[\w.-]+\\{0,7}\":\s*\\{0,7}\"[A-Za-z0-9+/]*={0,2}){0,40})"
        r"\\{0,7}\"\s*\},\s*(?:\\{0,7}\"immutable\\{0,7}\":\s*(?:true|false),\s*)?"
        r"\\{0,7}\"kind\\{0,7}\":\s*\\{0,7}\"Secret",
    ),
    _issued("AZURE_KEY", r"(?:[?&;]|\\{1,7}u0026)sig=([A-Za-z0-9+/%]{43,}=?)"),
    _word("JWT", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    _issued(
        "CONNECTION_STRING",
        rf"[A-Za-z][A-Za-z0-9+.-]{{1,30}}:{_SLASH}{_SLASH}[!$%&(-.0-9;=A-Z^_a-z{{-~]*:([!#$%&(-.0-:;=?A-\[\]-_a-z{{-~]+)@",
        is_password,
        preceded_by="[^A-Za-z0-9_.+%-]",
    ),
    _word("BEARER", rf"(?i:bearer){_BLANKS}([A-Za-z0-9._~+/-]{{16,}}={{0,2}})", is_opaque),
    _word(
        "BASIC_AUTH",
        rf"(?i:authorization){_IS}{MARK}{{0,2}}(?i:basic){_BLANKS}({_BASE64}{{8,}})",
    ),
    Detector("ASSIGNMENT", f"{_NAME_BEFORE}{_IS}({VALUE})", group="credentials", within=secret_in),
)
"""In order of precedence: at one place the first that matches, and whose check passes, wins."""
