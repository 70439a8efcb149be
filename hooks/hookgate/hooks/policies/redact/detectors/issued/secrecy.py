"""Private keys, hashes of passwords and tokens in formats that many issuers share."""

from hookgate.hooks.policies.redact.detectors.issued.row import key
from hookgate.hooks.policies.redact.detectors.randomness import is_random

_B64 = "[A-Za-z0-9./]"

SECRECY = (
    key("PRIVATE_KEY", "age", r"AGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
    key("PRIVATE_KEY", "age: plugins", r"AGE-PLUGIN-[A-Z0-9-]{3,30}-1[0-9A-Z]{58,}\b"),
    key(
        "PRIVATE_KEY",
        "PEM in base64",
        r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURSBLRVkt|BQUklWQVRFIEtFWS0tLS0t|BFQyBQUklWQVRFIEtFWS0tLS0t"
        r"|BPUEVOU1NIIFBSSVZBVEUgS0VZ|BFTkNSWVBURUQgUFJJVkFURSBLRVkt|BEU0EgUFJJVkFURSBLRVkt|BQR1AgUFJJVkFURSBLRVkgQkxPQ0st)"
        r"[A-Za-z0-9+/_-]{40,}={0,2}",
    ),
    key(
        "PRIVATE_KEY", "XML of .NET", r"<(?:D|P|Q|DP|DQ|InverseQ)>([A-Za-z0-9+/]{40,}={0,2})", preceded_by=""
    ),
    key("ONEPASSWORD_TOKEN", "1Password: service accounts", r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,2}"),
    key(
        "ONEPASSWORD_KEY",
        "1Password: secret keys",
        r"A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}\b",
    ),
    key(
        "BITWARDEN_TOKEN",
        "Bitwarden Secrets Manager",
        r"0\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[A-Za-z0-9]{20,40}:[A-Za-z0-9+/]{20,}={0,2}",
    ),
    key("NATS_SEED", "NATS: NKEYs", r"S[UANOCX][A-Z2-7]{56}\b", is_random),
    key("STELLAR_SEED", "Stellar", r"S[A-D][A-Z2-7]{54}\b", is_random),
    key("NOSTR_KEY", "Nostr", r"nsec1[02-9ac-hj-np-z]{58}\b"),
    key("JWT", "JSON web tokens", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*", None),
    key(
        "JWT",
        "encrypted, or in the form of a JWT",
        r"(?:ey[A-Za-z0-9]|ewog|ewoi)[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,2}",
        is_random,
    ),
    key("JWT", "JSON web tokens in base64", r"ZXlK[A-Za-z0-9+/_-]{40,}={0,2}", is_random),
    key("PASETO", "platform-agnostic security tokens", r"v[1-4]\.(?:local|public)\.[A-Za-z0-9_-]{60,}"),
    key("MACAROON", "macaroons", r"MDAx[A-Za-z0-9_+/-]{60,}={0,2}"),
    key("PASSWORD_HASH", "bcrypt", rf"\$2[abxy]?\$\d\d\$({_B64}{{53}})", preceded_by=""),
    key(
        "PASSWORD_HASH",
        "crypt: MD5, SHA-256, SHA-512, Apache",
        rf"\$(?:1|5|6|apr1|sha1|md5)\$(?:rounds=\d{{3,9}}\$)?([A-Za-z0-9./_+-]{{0,32}}\${_B64}{{22,86}})",
        preceded_by="",
    ),
    key(
        "PASSWORD_HASH",
        "yescrypt, scrypt and gost-yescrypt",
        rf"\$(?:y|7|gy)\$({_B64}{{3,12}}\${_B64}{{8,80}}\${_B64}{{43}})",
        preceded_by="",
    ),
    key("PASSWORD_HASH", "Cisco", rf"\$[89]\$({_B64}{{14}}\${_B64}{{43}})", preceded_by=""),
    key("PASSWORD_HASH", "phpass and Drupal", rf"\$[PHS]\$({_B64}{{31,52}})\b", is_random, preceded_by=""),
    key(
        "PASSWORD_HASH",
        "Argon2",
        r"\$argon2(?:id|i|d)\$(?:v=\d+\$)?m=\d+,t=\d+,p=\d+\$([A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{20,})",
        preceded_by="",
    ),
    key(
        "PASSWORD_HASH",
        "passlib: PBKDF2, scrypt and SHA-2",
        r"\$(?:pbkdf2(?:-sha\d+)?|scrypt|bcrypt-sha256|scram|sm3)\$([A-Za-z0-9=,.\$/+]{30,})",
        preceded_by="",
    ),
    key(
        "PASSWORD_HASH",
        "Django",
        r"(?:pbkdf2_sha(?:256|1)|bcrypt_sha256)\$[0-9]*\$?([A-Za-z0-9./+\$]{4,}\$[A-Za-z0-9./+=\$]{20,})",
    ),
    key("PASSWORD_HASH", "Django, older ones", r"(?:md5|sha1)\$([A-Za-z0-9]{4,24}\$[0-9a-f]{32,40})\b"),
    key(
        "PASSWORD_HASH",
        "Werkzeug",
        r"(?:pbkdf2:sha\d+:\d+|scrypt:\d+:\d+:\d+)\$([A-Za-z0-9]{8,24}\$[0-9a-f]{40,128})\b",
    ),
    key(
        "PASSWORD_HASH",
        "LDAP",
        r"\{(?:S?SHA(?:256|384|512)?|SMD5|PBKDF2[A-Z0-9-]*|CRYPT)\}([A-Za-z0-9+/\$.]{24,}={0,2})",
        preceded_by="",
    ),
    key(
        "PASSWORD_HASH",
        "PostgreSQL",
        r"SCRAM-SHA-256\$\d+:([A-Za-z0-9+/=]{16,}\$[A-Za-z0-9+/=]{40,}:[A-Za-z0-9+/=]{40,})",
    ),
    key("PASSWORD_HASH", "Windows", r"[0-9a-f]{32}:[0-9a-f]{32}:::", None),
    key("PASSWORD_HASH", "Kerberos", r"\$krb5(?:asrep|tgs|pa)\$\d\d\$([^\s\"']{60,})", preceded_by=""),
)
