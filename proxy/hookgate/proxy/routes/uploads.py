"""Uploads of files: the protocol's steps, read from headers, and the types of files. It does no I/O."""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from multidict import MultiMapping

from hookgate.proxy.errors import ApiError, request_refused

UPLOAD = "uploadFile"
"""The method of uploads in the table of routes."""

_COMMAND, _OFFSET, _PROTOCOL = "X-Goog-Upload-Command", "X-Goog-Upload-Offset", "X-Goog-Upload-Protocol"
_DECLARED_SIZE = "X-Goog-Upload-Header-Content-Length"
_DECLARED_TYPE = "X-Goog-Upload-Header-Content-Type"
_SINGLE = (_COMMAND, _OFFSET, _PROTOCOL, _DECLARED_SIZE, _DECLARED_TYPE)
_JUDGED_HEADERS = frozenset(name.lower() for name in _SINGLE)
MEDIA_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:; ?charset=(?i:utf-?8|us-ascii))?"
)
"""Matches a media type. Text in another charset would be another text than hooks judge."""
_RAW = {"raw", "media"}
_PROTOCOLS = {"", "resumable", *_RAW}


@dataclass(frozen=True, slots=True)
class UploadStep:
    """One request of an upload."""

    action: Literal["start", "data", "control"]
    """`start` contains the description of the file, `data` some of its bytes, and `control` nothing."""
    offset: int = 0
    """The position of the first byte of `data` in the file."""
    is_last: bool = False
    """Whether the file ends with this `data`."""
    resumable: bool = True
    """Whether the length of the file may have been declared in an earlier step."""
    declared_size: int | None = None


def read_upload_step(method: str, query: MultiMapping[str], headers: MultiMapping[str]) -> UploadStep:
    """Return the step that a request is. Raises ApiError (400 or 403) for any that cannot be judged.

    The upstream reads the same headers, so none of them may be repeated, and all of them must describe the
    same protocol: what counts as a whole file here must not be a part of one there.
    """
    for name in _SINGLE:
        if len(headers.getall(name, ())) > 1:
            raise request_refused(f"The header {name} is repeated; send it once.")
    protocol = _protocol(query, headers)
    commands = {word.strip().lower() for word in headers.get(_COMMAND, "").split(",")} - {""}
    is_multipart = headers.get("Content-Type", "").strip().lower().startswith("multipart/")
    if method != "POST" or is_multipart or protocol not in _PROTOCOLS:
        raise _not_judged()
    declared = _number(headers, _DECLARED_SIZE)
    if protocol in _RAW:
        if "upload_id" in query or any(name in headers for name in (_COMMAND, _OFFSET)):
            raise request_refused(
                f"A raw upload is one request with the whole file; omit upload_id, {_COMMAND} and {_OFFSET}, "
                "which belong to resumable uploads."
            )
        return UploadStep("data", is_last=True, resumable=False, declared_size=declared)
    if commands == {"start"}:
        return UploadStep("start", declared_size=declared)
    if commands in ({"query"}, {"cancel"}):
        return UploadStep("control")
    if not commands or commands - {"upload", "finalize"}:
        raise _not_judged()
    offset = _number(headers, _OFFSET)
    if offset is None:
        raise request_refused(f"The header {_OFFSET} is missing.")
    return UploadStep("data", offset, "finalize" in commands, declared_size=declared)


def without_unjudged(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers to forward without those of uploads that hold text which no hook sees, such as its name.

    Raises ApiError (400) if the type that is declared for the file is none.
    """
    if (declared := headers.get(_DECLARED_TYPE)) and not MEDIA_TYPE.fullmatch(declared):
        raise request_refused(f"The header {_DECLARED_TYPE} must be a media type, such as text/plain.")
    return {
        name: value
        for name, value in headers.items()
        if not name.lower().startswith("x-goog-upload-") or name.lower() in _JUDGED_HEADERS
    }


def _protocol(query: MultiMapping[str], headers: MultiMapping[str]) -> str:
    """Return the only protocol that a request names, or an empty string. Raises ApiError (400)."""
    given = (headers.get(_PROTOCOL), query.get("upload_protocol"), query.get("uploadType"))
    protocols = {value.lower() for value in given if value}
    if len(protocols) > 1:
        raise request_refused(
            f"The request names several protocols ({_PROTOCOL}, upload_protocol, uploadType); name one."
        )
    return protocols.pop() if protocols else ""


def _number(headers: MultiMapping[str], name: str) -> int | None:
    value = headers.get(name)
    if value is not None and not re.fullmatch(r"[0-9]{1,15}", value):
        raise request_refused(f"The header {name} must be a number of bytes.")
    return None if value is None else int(value)


def _not_judged() -> ApiError:
    return ApiError(
        403,
        "hookgate judges uploads by POST, resumable (X-Goog-Upload-Command: start, then upload, finalize) or "
        'raw, and no other ones; use such an upload, or set routes.files = "forward" in hookgate.toml to '
        "forward files unjudged.",
        "ROUTE_NOT_ALLOWED",
    )


def file_text(data: bytes, *, is_last: bool) -> str | None:
    """Return the text of a file, or of its beginning, or None if it is not text in UTF-8.

    Text with null characters counts as binary: it may be UTF-16, which hooks would not be able to read.
    """
    if b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=is_last)
    except UnicodeDecodeError:
        return None
