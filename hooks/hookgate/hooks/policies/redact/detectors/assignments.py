"""Secrets that only the text before them tells: names of fields, words, schemes and addresses."""

import re
from base64 import b64decode
from urllib.parse import unquote

from hookgate.hooks.policies.redact.detectors.detector import LONGEST_ESCAPE, Detector
from hookgate.hooks.policies.redact.detectors.issued.formats import has_issued_format
from hookgate.hooks.policies.redact.detectors.issued.row import key
from hookgate.hooks.policies.redact.detectors.randomness import is_prefixed_key, is_random, is_random_letters
from hookgate.hooks.policies.redact.detectors.values import (
    MARK,
    VALUE,
    is_bare_secret,
    is_marked,
    is_opaque,
    is_password,
    secret_in,
)
from hookgate.hooks.policies.redact.detectors.vendors import VENDORS

_BASE64 = r"(?:[A-Za-z0-9+/=]|\\{1,7}/|%2[BbFf]|%3[Dd]|\\{1,7}u00(?:2[bBfF]|3[dD]))"
_NAME_BEFORE = (
    r"(?i:(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|"
    r"(?:api|access|private|auth|signing|encryption)[_-]?key)"
    r"s?(?:[_-][a-z0-9_-]{0,15}|\d{1,3}|[_-]?key)?)"
)
_GAP = r"(?:[ \t\xa0]|&nbsp;|%20){0,40}"
_SLASH = r"(?:\\{0,7}/|%2[Ff]|\\{1,7}u002[fF])"
# The encoded characters of a user or password in an address; not those of the signs in `:/@?#`.
_ENCODED = "(?:2[0124-9A-Ea-e]|3[0-9B-Eb-e]|4[1-9A-Fa-f]|[015-9A-Fa-f][0-9A-Fa-f])"
_IN_BEARER = r"(?:[A-Za-z0-9._~+/-]|\\{1,7}/|%2[BbFf]|\\{1,7}u002[bBfF])"
_PADDING = r"(?:=|%3[Dd]|\\{1,7}u003[dD])"
_BLANKS = r"(?:[ \t\xa0+]|%20|&nbsp;|\\{1,4}u0020){1,4}"
_EQUALS = r"(?:=>|:=|=|:|%3[AaDd]|\\{1,7}u003[aAdD]|&#(?:58|61|x3[AaDd]);)"
_EMPHASIS = r"(?:[*_~]{1,3}|</?[a-z]{1,6}>)?"
_IS = rf"{MARK}{{0,4}}{_GAP}(?::[ \t]?[a-z]{{2,12}}[ \t]?)?{_EQUALS}{_EMPHASIS}{_GAP}"

_TELLING = (
    "key|token|secret|passw(?:or)?d|passwd|pwd|pass|pat|auth|access|private|cred(?:ential)?s?|login|dsn"
    "|jwt|otp|hmac|crumb|licen[cs]e|bearer|authorization"
)
_MORE = rf"(?:[ _.-]?(?:{_TELLING}|api|app|admin|service|account|value|sid|code|v?[0-9]+))*"
_VENDOR = "|".join(VENDORS).replace("-", "[ _-]?")
_OF_VENDOR = (
    r"(?i:(?:[ _.-]?(?:io|ai|api|app|com|prod|production|dev|test|staging|live|sandbox|rest|v?[0-9])){0,3})"
)
_QUOTE = r"(?:\\{0,7}[\"'`]|&quot;|%2[27]|\\{1,7}u002[27])"
_ASSIGNED = rf"{_QUOTE}?\]?[ \t]{{0,20}}(?:=>|:=|<-|[=:,(|>]|%3[AaDd])[ \t]{{0,20}}"
_OPENED = rf"(?:[bBrRuU]?{_QUOTE})?"
# `"name": "API_KEY", "value": "…"`, and the default of a variable.
_VALUE_OF = (
    rf"{_QUOTE}?,?(?:\s|\\{{1,7}}n){{1,20}}{_QUOTE}?value{_QUOTE}?[ ]?[:=][ ]?"
    rf"|{_QUOTE}[ ]\{{\n[ ]{{0,20}}default[ ]{{1,20}}=[ ]"
)
_THEN = rf"(?:{_ASSIGNED}|[ \t]{{1,3}}|\n[ ]{{0,20}}|{_VALUE_OF}){_OPENED}"
_LONGEST_ISSUED = 1024
_IN_TYPE, _QUOTED = re.compile(r"::\w*\Z"), re.compile(r"[A-Z][A-Za-z]*\\{0,7}[\"']")
# Random text has a letter next to a digit.
_BEGUN = r"[A-Za-z_+/-]{12,}[0-9]|(?:[A-Za-z_+/-]+[0-9]|[0-9]+[A-Za-z])[A-Za-z0-9_+/-]{6}"
_RANDOM = rf"((?:{_BEGUN})[A-Za-z0-9_~+/.|=-]*|[A-Za-z]{{20,}})"


def is_user_and_password(text: str) -> bool:
    """Return whether text in base64 is a name and a password, as in headers of HTTP."""
    try:
        decoded = b64decode(text, validate=True)
    except ValueError:
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode().isprintable()


def encoded_address(escape: str) -> str:
    """Return the pattern of an address with a password, of which every sign is escaped, with `%` or `%25`."""
    part, colon = rf"[A-Za-z0-9_.~!*'()-]|{escape}{_ENCODED}", f"{escape}3[Aa]"
    slashes = f"{escape}2[Ff]" * 2
    return rf"[A-Za-z][A-Za-z0-9+.-]{{1,30}}{colon}{slashes}(?:{part})*{colon}((?:{part}|{colon})+){escape}40"


def is_encoded_password(text: str) -> bool:
    """Return whether the percent-encoded password in an address is one, see `is_password`."""
    return is_password(unquote(unquote(text)))


def is_typed_password(text: str) -> bool:
    """Return whether an argument is a password with a digit, and not a word, path or address."""
    return is_bare_secret(text) and any(character.isdigit() for character in text)


def is_no_type(before: str, match: str, _secret: str) -> bool:
    """Return whether a match is a value of a field, and not of a type such as `"AWS::AppSync::ApiKey": …`."""
    return not (_IN_TYPE.search(before[-LONGEST_ESCAPE:]) and _QUOTED.match(match))


def is_unknown_key(text: str) -> bool:
    """Return whether the text is random, and not an issued key, which is left to its own detector."""
    is_like_one = is_random_letters(text) if text.isalpha() else is_random(text)
    return is_like_one and not is_marked(text) and not has_issued_format(text[:_LONGEST_ISSUED])


ASSIGNMENTS = (
    key(
        "AZURE_KEY",
        "storage, service bus",
        rf"(?i:AccountKey|SharedAccessKey){_EQUALS}({_BASE64}{{43,}})",
        None,
    ),
    # The values of a Secret, from the first to the last; their position identifies them.
    key(
        "KUBERNETES_SECRET",
        "the data of a Secret in YAML",
        r"data:\n[ ]+[\w.-]+: (\"?[A-Za-z0-9+/]+={0,2}\"?(?:\n[ ]+[\w.-]+: \"?[A-Za-z0-9+/]*={0,2}\"?){0,40})"
        r"\n[ ]*(?:immutable: (?:true|false)\n[ ]*)?kind: Secret",
        None,
    ),
    key(
        "KUBERNETES_SECRET",
        "the data of a Secret in JSON",
        r"data\\{0,7}\":\s*\{\s*\\{0,7}\"[\w.-]+\\{0,7}\":\s*\\{0,7}\""
        r"([A-Za-z0-9+/]+={0,2}(?:\\{0,7}\",\s*\\{0,7}\"[\w.-]+\\{0,7}\":\s*\\{0,7}\"[A-Za-z0-9+/]*={0,2}){0,40})"
        r"\\{0,7}\"\s*\},\s*(?:\\{0,7}\"immutable\\{0,7}\":\s*(?:true|false),\s*)?"
        r"\\{0,7}\"kind\\{0,7}\":\s*\\{0,7}\"Secret",
        None,
        preceded_by="",
    ),
    key(
        "CONNECTION_STRING",
        "the password in `scheme://user:password@host`",
        rf"[A-Za-z][A-Za-z0-9+.-]{{1,30}}:{_SLASH}{_SLASH}[!$%&(-.0-9;=A-Z^_a-z{{-~]*:([!#$%&(-.0-:;=?A-\[\]-_a-z{{-~]+)@",
        is_password,
        preceded_by="[^A-Za-z0-9_.+%-]",
    ),
    *(
        key(
            "CONNECTION_STRING",
            f"the same, percent-encoded {times}",
            encoded_address(escape),
            is_encoded_password,
            preceded_by="[^A-Za-z0-9_.+%-]",
        )
        for times, escape in {"once": "%", "twice": "%25"}.items()
    ),
    key(
        "BEARER",
        "the value after `Bearer`",
        rf"(?i:bearer){_BLANKS}({_IN_BEARER}{{16,}}{_PADDING}{{0,2}})",
        is_opaque,
    ),
    key(
        "BASIC_AUTH",
        "the value after `Authorization: Basic`",
        rf"(?i:authorization){_IS}{MARK}{{0,2}}(?i:basic){_BLANKS}({_BASE64}{{8,}})",
        None,
    ),
    key(
        "CURL_PASSWORD",
        "options of libcurl",
        r"CURLOPT_[A-Z0-9_]*(?:PASSWORD|PASSWD|USERPWD|BEARER),[ ]*\\{0,7}\"([^\"\s\\]{6,})\\{0,7}\"",
        is_password,
    ),
    key(
        "SECURE_STRING",
        "PowerShell's `ConvertTo-SecureString`",
        r"ConvertTo-SecureString(?:[ ]+-String)?[ ]+\\{0,7}[\"']([^\"'\s\\$]{6,})\\{0,7}[\"']",
        is_password,
    ),
    key(
        "NETRC",
        "passwords in `.netrc`",
        r"login(?:\s|\\+n)+[^\s\\]+(?:\s|\\+n)+password[ \t]+"
        r"([!#-&(-\[\]-_a-~]{3,}[#-&(-+/-9<-\[\]-_a-~])",
        is_password,
    ),
    key(
        "SQL_PASSWORD",
        "passwords of users of a database",
        r"(?i:identified[ ]by|with[ ]password|encrypted[ ]password)[ ]{1,4}\\{0,7}'([^'\s\\]{6,})",
        is_password,
    ),
    key(
        "COMMAND_PASSWORD",
        "options of commands, such as `--password`",
        r"(?i:--?(?:[a-z]+-)*(?:passw(?:or)?d|passwd|pwd|secret|token|key)|sshpass[ ]-p)[ ]{1,3}[\"']?"
        r"([^\s\"'`$<>{}()\[\]\\|,;]{8,})",
        is_typed_password,
    ),
    key(
        "COMMAND_PASSWORD",
        "`curl -u user:password` and the like",
        r"(?:-u|--user)[ =][\"']?[A-Za-z0-9._@-]+:([^\s\"'`$<>{}()\[\]\\|,;]{6,})",
        is_typed_password,
    ),
    key(
        "BASIC_AUTH",
        "`auth` in the configuration of Docker",
        r"auth\\{0,7}\":\s?\\{0,7}\"([A-Za-z0-9+/]{12,}={0,2})\\{0,7}\"",
        is_user_and_password,
    ),
    key(
        "PRIVATE_KEY",
        "JSON web keys",
        r"\"(?:d|p|q|dp|dq|qi|k)\\{0,7}\":\s?\\{0,7}\"([A-Za-z0-9_-]{40,})",
        is_random,
        preceded_by="",
    ),
    Detector(
        "ASSIGNMENT",
        f"{_NAME_BEFORE}{_IS}({VALUE})",
        group="credentials",
        within=secret_in,
        fits=is_no_type,
        note="values of names such as `db_password`",
    ),
    key(
        "NAMED_KEY",
        "random values after words",
        rf"(?i:(?:{_TELLING}){_MORE}){_THEN}{_RANDOM}",
        is_unknown_key,
        preceded_by="",
    ),
    key(
        "NAMED_KEY",
        "random values after words and a dash",
        rf"(?i:(?:secret|private|access|token|password|_key){_MORE})[-.]{_RANDOM}",
        is_unknown_key,
        preceded_by="",
    ),
    key(
        "PREFIXED_KEY",
        "keys of others with such a word in their prefix",
        r"(?:sk|pat|key|apikey|api|tok|tkn|token|secret|sec|priv|private|prv|pvt|access|auth|oauth|admin|pw|scim)"
        r"(?:_(?:[A-Za-z0-9]{1,8}_)?[A-Za-z0-9_-]{20,}|-[A-Za-z0-9]{20,}[A-Za-z0-9_-]*)",
        is_prefixed_key,
        preceded_by=r"[\W_]",
    ),
    key(
        "VENDOR_KEY",
        "random values after the name of a service",
        rf"(?i:{_VENDOR}){_OF_VENDOR}(?:{_ASSIGNED}|[ \t]{{1,3}}){_OPENED}{_RANDOM}",
        is_unknown_key,
        preceded_by=r"[\W_]",
    ),
)
