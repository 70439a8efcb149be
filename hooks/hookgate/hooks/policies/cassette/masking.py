"""Secrets and personal data in what is recorded."""

from collections.abc import Callable

from hookgate.hooks.policies.redact import DETECTORS, Redactor, Scanner


def masking() -> Callable[[str], str]:
    """Masks what the policy `redact` finds by default: `[EMAIL]` for a mail address. A mask is left alone."""
    scanner = Scanner(tuple(each for each in DETECTORS if each.default))

    def mask(text: str) -> str:
        redactor = Redactor(scanner, lambda kind, original: f"[{kind}]")
        return "".join(piece.output for piece in (*redactor.feed(text), *redactor.finish()))

    return mask
