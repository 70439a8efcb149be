"""Signatures of webhooks, by the specification Standard Webhooks (HMAC with SHA-256)."""

import base64
import hmac

SECRET_PREFIX = "whsec_"  # noqa: S105  # no secret


def signing_key(secret: str) -> bytes:
    """Return the key in a secret such as `whsec_…`. Raises ValueError if it has none."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not 24 <= len(key) <= 64:
        raise ValueError(
            "must be whsec_ and 24 to 64 bytes in base64; print one with: hookgate alerts secret"
        )
    return key


def signed_headers(key: bytes, identity: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request with this identity, at a time in seconds since 1970."""
    digest = hmac.digest(key, f"{identity}.{at}.".encode() + body, "sha256")
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
