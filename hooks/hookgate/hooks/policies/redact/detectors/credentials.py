"""Keys, tokens and passwords, in the formats that their issuers document.

Patterns end where the alphabet of the secret does, or at a boundary, so what follows a replacement is not
read as something else the second time. Where an unbounded repeat has a check, no other match can begin inside
of it: a refused match is tried again one character later, and would cost its length each time.
"""

from collections.abc import Callable

from hookgate.hooks.policies.redact.detectors.detector import Detector
from hookgate.hooks.policies.redact.detectors.entropy import (
    is_bare_secret,
    is_opaque,
    is_password,
    is_quoted_secret,
)

_GAP = r"(?:\s|\\{1,3}[nrt])"  # line ends as they are, and as JSON writes them
_PEM = (
    r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_GAP}+[A-Za-z-]{{3,20}}: [ !#-\[\]-~]*)*"
    rf"(?:{_GAP}+[A-Za-z0-9+/=]{{16,}})+"
    rf"(?:(?:{_GAP}+[A-Za-z0-9+/=]{{1,15}}){{0,2}}"
    rf"{_GAP}*-----END (?:[A-Z0-9]{{2,12}} ){{0,3}}PRIVATE KEY(?: BLOCK)?-----)?"
)

_QUOTE = r"\\{0,3}[\"'`]"
_NAME_BEFORE = (
    r"(?i:(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|"
    r"(?:api|access|private|auth|signing|encryption)[_-]?key)"
    r"s?(?:[_-][a-z0-9_-]{0,15}|\d{1,3}|[_-]?key)?)"
)
_IS = rf"(?:{_QUOTE}\]?)?[ \t]{{0,4}}(?::[ \t]?[a-z]{{2,12}}[ \t]?)?(?:=>|:=|=|:)[ \t]{{0,4}}"


def _issued(kind: str, pattern: str, check: Callable[[str], bool] | None = None, after: str = "") -> Detector:
    return Detector(kind, pattern, check, "credentials", after=after)


CREDENTIALS: tuple[Detector, ...] = (
    _issued("PRIVATE_KEY", _PEM),
    _issued("PRIVATE_KEY", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
    _issued("AWS_ACCESS_KEY", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    _issued("GITHUB_TOKEN", r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    _issued("GITHUB_TOKEN", r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59,}"),
    _issued(
        "GITLAB_TOKEN",
        r"\bgl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?",
    ),
    _issued("GOOGLE_API_KEY", r"\bAIza[A-Za-z0-9_-]{35,}"),
    _issued("GOOGLE_API_KEY", r"\bAQ\.Ab[A-Za-z0-9_-]{30,}"),
    _issued("GOOGLE_OAUTH", r"\bya29\.[A-Za-z0-9_.-]{20,}"),
    _issued("GOOGLE_OAUTH", r"\bGOCSPX-[A-Za-z0-9_-]{28,}"),
    _issued("SLACK_TOKEN", r"\bxox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    _issued("SLACK_TOKEN", r"\bxapp-\d-[A-Za-z0-9-]{20,}"),
    _issued(
        "SLACK_WEBHOOK", r"\bhooks\.slack\.com/services/(T[A-Z0-9]{7,14}/B[A-Z0-9]{7,14}/[A-Za-z0-9]{20,})"
    ),
    _issued("STRIPE_KEY", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    _issued("STRIPE_KEY", r"\bwhsec_[A-Za-z0-9+/]{32,}={0,2}"),
    _issued("ANTHROPIC_KEY", r"\bsk-ant-[A-Za-z0-9_-]{24,}"),
    _issued("OPENROUTER_KEY", r"\bsk-or-v1-[0-9a-f]{64}\b"),
    _issued("OPENAI_KEY", r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    _issued("OPENAI_KEY", r"\bsk-[A-Za-z0-9]{32,}"),
    _issued("NPM_TOKEN", r"\bnpm_[A-Za-z0-9]{36,}"),
    _issued("PYPI_TOKEN", r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    _issued("HUGGINGFACE_TOKEN", r"\bhf_[A-Za-z0-9]{34,}"),
    _issued("GROQ_KEY", r"\bgsk_[A-Za-z0-9]{52,}"),
    _issued("XAI_KEY", r"\bxai-[A-Za-z0-9]{80,}"),
    _issued("SENDGRID_KEY", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43,}"),
    _issued("DIGITALOCEAN_TOKEN", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    _issued("VAULT_TOKEN", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _issued("DOCKER_TOKEN", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    _issued("SHOPIFY_TOKEN", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b"),
    _issued("AZURE_KEY", r"\b(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,}={1,2})"),
    _issued("AZURE_KEY", r"[?&;]sig=([A-Za-z0-9+/%]{43,}=?)"),
    _issued("JWT", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"),
    _issued(
        "CONNECTION_STRING",
        r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[!$%&(-.0-9;=A-Z^_a-z{-~]*:([!$%&(-.0-:;=A-Z^_a-z{-~]+)@",
        is_password,
        after="[^A-Za-z0-9_.+%-]",
    ),
    _issued("BEARER", r"\b(?i:bearer)[ \t]{1,4}([A-Za-z0-9._~+/-]{16,}={0,2})", is_opaque),
    _issued(
        "BASIC_AUTH",
        rf"\b(?i:authorization){_IS}(?:{_QUOTE})?(?i:basic)[ \t]{{1,4}}([A-Za-z0-9+/]{{8,}}={{0,2}})",
    ),
    _issued(
        "ASSIGNMENT",
        rf"{_NAME_BEFORE}{_IS}{_QUOTE}([!#-&(-/:;=?-Z^_a-~]*[0-9][!#-&(-;=?-Z^_a-~]*){_QUOTE}",
        is_quoted_secret,
    ),
    _issued(
        "ASSIGNMENT",
        rf"{_NAME_BEFORE}{_IS}([A-Za-z_.+/~!@#$%^*?-]*[0-9][A-Za-z0-9_.+/~!@#$%^*?-]*={{0,2}})(?:[^A-Za-z0-9_.+/~!@#$%^*?(\[-]|$)",
        is_bare_secret,
    ),
)
"""In order of precedence: at one place the first that matches, and whose check passes, wins."""
