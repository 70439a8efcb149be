"""Audio in messages, which hooks cannot judge. Nothing else may pass as audio."""

import re
from typing import Any

from hookgate.translator.checks import is_canonical_base64
from hookgate.translator.fields import camel, read, read_object

_TYPES = "aac|aiff|alaw|flac|l16|m4a|mp3|mp4|mpeg|mulaw|ogg|opus|pcm|pcma|pcmu|wav|wave|webm"
_PARAMETERS = "; ?(?:rate|channels)=[0-9]{1,6}|; ?codecs?=[A-Za-z0-9]{1,8}"
_AUDIO = re.compile(f"(?i:audio/(?:x-)?(?:{_TYPES}))(?:{_PARAMETERS}){{0,3}}")
_FIELDS = frozenset({"mimeType", "data"})


def is_audio_type(media_type: Any) -> bool:
    """Return whether a value is a media type of audio whose parameters cannot contain a text."""
    return isinstance(media_type, str) and _AUDIO.fullmatch(media_type) is not None


def is_audio(part: Any) -> bool:
    """Return whether a part is audio, and nothing else: no field of it could contain a text."""
    if not isinstance(part, dict) or set(map(camel, part)) != {"inlineData"}:
        return False
    blob = read_object(part, "inlineData")
    data = blob.get("data")
    if not set(map(camel, blob)) <= _FIELDS or not is_audio_type(read(blob, "mimeType")):
        return False
    return data is None or (isinstance(data, str) and is_canonical_base64(data))
