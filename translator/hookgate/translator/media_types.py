"""The media types of files by their first bytes."""

from collections.abc import Iterator

_BOX, _BRANDS = b"ftyp", {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
    b"avif": "image/avif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
    b"3gp4": "video/3gpp",
    b"3gp5": "video/3gpp",
    b"3gp6": "video/3gpp",
}  # fmt: skip
"""The brand of an ISO media file, which follows the name of its first box. Other brands are video/mp4."""

_CONTAINERS = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RIFF", b"AVI "): "video/avi",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
"""The types of files that begin with a container's name, a length, and the name of the content."""

_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"\x00\x00\x01\xba", "video/mpeg"),
    (b"\x00\x00\x01\xb3", "video/mpeg"),
    (b"FLV\x01", "video/x-flv"),
    (bytes.fromhex("3026b2758e66cf11"), "video/wmv"),
)
"""The first bytes of files of other types that the API accepts."""


def media_type(data: bytes) -> str:
    """Return the media type of a file by its first bytes, or an empty string if it is none that is known."""
    return next(_media_types(data), "")


def _media_types(data: bytes) -> Iterator[str]:
    if data[4:8] == _BOX:
        yield _BRANDS.get(data[8:12], "video/mp4")
    if found := _CONTAINERS.get((data[:4], data[8:12])):
        yield found
    yield from (name for signature, name in _SIGNATURES if data.startswith(signature))
