"""JSON packed for a column: compressed with the words that records are made of, under a checksum. Pure."""

import zlib
from typing import Any

from hookgate.proxy.audit.chain import canonical
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

# What comes last is found cheapest. Bodies that are stored already can be read with these words alone.
_WORDS = (
    b'"builtin":"limits""builtin:tools""builtin:models""runtime""http""command""client_gone":true'
    b'"outcome":"interrupted""outcome":"refused""outcome":"stopped""outcome":"synthetic""outcome":"failed"'
    b'"outcome":"left""outcome":"denied","reasons":{"BeforeModel":"","status":403'
    b'"event":"BeforeToolSelection""event":"BeforeTool""event":"AfterTool""event":"BeforeAgent"'
    b'"findings":{"EMAIL":"mode":"observe","decisions":{"deny":1},"edits":["contents"],'
    b'"model":"gemini-2.5-pro","model":"gemini-2.5-flash","request_bytes":,"request_id":"","revision":"",'
    b'"route":{"kind":"forwarded","kind":"judged","path":"/v1beta/models/gemini-2.5-flash:streamGenerateContent'
    b'"path":"/v1beta/models/gemini-2.5-flash:generateContent"},'
    b'"session":{"client":"google-genai-sdk","id":"","key":"","team":""}}'
    b'{"answer_bytes":,"bypasses":0,"client_gone":false,"degraded":[],"hooks":['
    b'{"bytes":,"decisions":{"allow":1},"edits":[],"event":"BeforeModel","failures":0,"findings":{},'
    b'"hook":"","mode":"enforce","ms":0.,"runs":1,"type":"builtin:redact"},'
    b'{"bytes":,"decisions":{"allow":1},"edits":[],"event":"AfterModel","failures":0,"findings":{},'
    b'"hook":"","mode":"enforce","ms":0.,"runs":1,"type":"runtime"}],"outcome":"answered","reasons":{},'
    b'"status":200,"timings":{"before_ms":0.,"first_byte_ms":,"total_ms":,"upstream_ms":},'
    b'"upstream_requests":1,"usage":{"cached_tokens":0,"cost":null,"input_tokens":,"output_tokens":}}'
)
_RAW = -15  # deflate without a header: the checksum here covers each bit, zlib's does not
_CHECKSUM = 4


def pack(value: Any) -> bytes:
    """A JSON value, packed."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _RAW, 9, zlib.Z_DEFAULT_STRATEGY, _WORDS)
    data = packer.compress(canonical(value)) + packer.flush()
    return zlib.crc32(data).to_bytes(_CHECKSUM, "big") + data


def unpack(data: bytes) -> Any:
    """What was packed. Raises ValueError for what is not as it was packed."""
    checksum, packed = data[:_CHECKSUM], data[_CHECKSUM:]
    if zlib.crc32(packed).to_bytes(_CHECKSUM, "big") != checksum:
        raise ValueError("its bytes are not those that were stored")
    unpacker = zlib.decompressobj(_RAW, _WORDS)
    try:
        return loads(unpacker.decompress(packed) + unpacker.flush())
    except (zlib.error, BodyError) as error:
        raise ValueError(f"it cannot be read: {error}") from None


def body_of(data: bytes) -> JsonObject:
    """A record's body; an empty one where it was damaged, which is for `verify` to tell."""
    try:
        body: JsonObject = unpack(data)
    except ValueError:
        return {}
    return body
