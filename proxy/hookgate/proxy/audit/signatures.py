"""Signatures of heads, so that an auditor needs only a public key to trust them (Ed25519, RFC 8032).

Whoever can write the database and the heads can make both agree. A signature shows which heads the holder of
the private key has seen: what they name cannot be removed or changed later without detection.
"""

import base64
import binascii
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from hookgate.proxy.audit.chain import canonical_json
from hookgate.proxy.audit.heads import CheckSignature, SignHeads
from hookgate.proxy.errors import describe_os_error
from hookgate.translator.fields import JsonObject, without

_CREATE = "create one with: openssl genpkey -algorithm ed25519 -out FILE"
_BYTES = 64
_SECONDS = 60.0
"""How long a program may take to sign."""


def _signed(sign: Callable[[bytes], bytes], document: JsonObject) -> JsonObject:
    """Return the document with its signature, which covers everything else in it."""
    signature = base64.b64encode(sign(canonical_json(document))).decode()
    return {**document, "signature": {"algorithm": "Ed25519", "value": signature}}


def check_signature(public_key: Ed25519PublicKey, document: JsonObject) -> None:
    """Raise ValueError unless the document has a signature by the owner of the public key."""
    signature = document.get("signature")
    if not isinstance(signature, dict) or signature.get("algorithm") != "Ed25519":
        raise ValueError("it is not signed")
    try:
        value = base64.b64decode(str(signature.get("value")), validate=True)
        public_key.verify(value, canonical_json(without(document, "signature")))
    except (binascii.Error, InvalidSignature):
        raise ValueError("its signature does not match it, or was made with another key") from None


def file_signer(path: Path) -> SignHeads:
    """Return what signs with the private key in a PEM file. Raises ValueError if there is none."""
    data = _read(path)
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{path}: it contains no private key that can be read: {error}; {_CREATE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path}: the key is not an Ed25519 key; {_CREATE}")
    return partial(_signed, key.sign)


def program_signer(command: str) -> SignHeads:
    """Return what signs with a program, such as the client of a cloud's key service.

    The shell runs `command` with the data as its input. The program prints the signature, as 64 bytes or in
    base64.
    """

    def sign(data: bytes) -> bytes:
        try:
            ran = subprocess.run(  # noqa: S602  # the operator's own command line, as in a shell
                command, shell=True, input=data, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"the program that signs has not ended after {_SECONDS:.0f} seconds") from None
        if ran.returncode:
            printed = ran.stderr.decode(errors="replace").strip()[-300:]
            raise ValueError(f"the program that signs has failed with exit code {ran.returncode}: {printed}")
        if len(ran.stdout) == _BYTES:
            return ran.stdout
        try:
            signature = base64.b64decode(ran.stdout.strip(), validate=True)
        except binascii.Error:
            signature = b""
        if len(signature) != _BYTES:
            raise ValueError(
                "the program that signs has not printed an Ed25519 signature, 64 bytes or their base64"
            )
        return signature

    return partial(_signed, sign)


def file_checker(path: Path) -> CheckSignature:
    """Return what checks signatures with the public key in a PEM file. Raises ValueError if there is none."""
    data = _read(path)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(
            f"{path}: it contains no public key that can be read: {error}; write one with: "
            "openssl pkey -in PRIVATE -pubout -out FILE"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(f"{path}: the key is not an Ed25519 key")
    return partial(check_signature, key)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {describe_os_error(error)}; check the path") from None
