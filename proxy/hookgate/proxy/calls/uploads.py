"""Uploads of files: hooks judge text, and other files follow the rule of types and sizes.

The bytes decide what a file is, not the type that a client declares. Requests of one upload may reach
different gateways, so each is judged by itself: text must arrive in one request, and a file that arrives in
several must begin as one of the listed types. The upstream accepts each part only after the one before it.
"""

import re
from fnmatch import fnmatchcase
from functools import partial

from aiohttp import web

from hookgate.hooks import BeforeModel, Engine
from hookgate.proxy.calls.answer_reading import read_whole
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.forward import UploadUrls, rewrite_upload_urls
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.errors import ApiError, body_refused, pluralize, policy_denied
from hookgate.proxy.routes.uploads import (
    MEDIA_TYPE,
    UploadStep,
    file_text,
    read_upload_step,
    without_unjudged,
)
from hookgate.proxy.server.bodies import content_coding
from hookgate.proxy.server.connection import error_response
from hookgate.proxy.upstream.client import in_utf8, to_upstream, with_judged_body
from hookgate.proxy.upstream.connection import UpstreamError
from hookgate.translator import BodyError, make_canonical
from hookgate.translator.checks import check_keys
from hookgate.translator.fields import JsonObject, camel, is_text, joined_text, read, write
from hookgate.translator.media_types import media_type
from hookgate.translator.strictjson import dumps

_ENDED = {"X-Goog-Upload-Status": "cancelled"}
"""The header without which google-genai would send a refused part three more times."""

_REMEDY = "see routes.files, routes.file_types and routes.file_bytes in hookgate.toml"
_NAME = re.compile(r"(?:files/)?[a-z0-9-]{0,64}")


class UploadCalls:
    """Processes one request of an upload."""

    def __init__(self, call: Call, engine: Engine) -> None:
        self._call, self._engine, self._record = call, engine, call.record
        self._routes, self._limits = call.services.config.routes, call.services.config.limits

    async def run(self) -> web.StreamResponse:
        """Answer the request, even if it is refused. Raises ConnectionError if the client has left."""
        try:
            return await self._run()
        except ApiError as error:
            self._call.services.note_error(self._record, error)
            response = error_response(error)
            response.headers.update(_ENDED)
            return response

    async def _run(self) -> web.Response:
        call = self._call
        request, route = call.request, call.route
        step = read_upload_step(request.method, request.query, request.headers)
        if content_coding(request) != "identity":
            raise body_refused("an upload must not be compressed: its bytes could not be judged", 415)
        judge, open_session = await call.begin(self._engine, {})
        open_session.raise_if_stopped()
        if step.action == "start":
            data = await self._judge_description(step, judge)
        else:
            data = await self._judge_bytes(step, await call.read_data(), judge)
        headers = in_utf8(without_unjudged(to_upstream(request.headers, "identity")))
        try:
            async with call.send(route, headers, data) as answer:
                body = await read_whole(answer.chunks(), memory=call.answer_memory)
        except UpstreamError as error:
            raise error.as_api_error() from None
        upload_urls = UploadUrls.of_call(call, route)
        sent = with_judged_body(answer.headers) | rewrite_upload_urls(answer.headers, upload_urls)
        return web.Response(status=answer.status, headers=sent, body=body)

    # ---- the description of the file

    async def _judge_description(self, step: UploadStep, judge: Judge) -> bytes:
        """Return the description of the file after its hooks. Raises ApiError if it is refused."""
        forwarded = self._routes.file_bytes if self._routes.file_types else 0
        if step.declared_size is not None and step.declared_size > max(self._limits.text, forwarded):
            raise _refused(f"a file of {step.declared_size} bytes is too large")
        if not self._call.request.body_exists:
            return b""
        body = await self._call.read_body()
        try:
            file = _description(body)
        except BodyError as error:
            raise body_refused(error) from None
        name = read(file, "displayName")
        if name:
            edited = await self._judge_text(name, judge)
            body = body if edited == name else write(body, "file", write(file, "displayName", edited))
        return await self._call.steps.run(dumps, body)

    # ---- its bytes

    async def _judge_bytes(self, step: UploadStep, data: bytes, judge: Judge) -> bytes:
        """Return the bytes after their hooks. Raises ApiError if they are refused."""
        if not data:
            return data
        if step.action == "control":
            raise body_refused("this request of an upload must not have a body")
        selects_by_key = not self._engine.conditions(BeforeModel.name).isdisjoint({"key", "team"})
        if not judge.session.key and selects_by_key:
            # SDKs send the bytes without the key, so hooks that are selected by it would not see them.
            raise _refused(
                "its bytes came without a key, and the conditions of some hooks are keys or teams; send the "
                "key with each request, or judge files with hooks that have no such conditions"
            )
        if step.offset:
            self._pass_unjudged(step, data, "")
            return data
        text = await self._call.steps.run(partial(file_text, data, is_last=step.is_last))
        if text is None:
            self._pass_unjudged(step, data, media_type(data) or "unknown")
            return data
        if not step.is_last or len(data) > self._limits.text:
            most = pluralize(self._limits.text, "byte")
            raise _refused(f"text is judged as a whole, so it must arrive in one request of at most {most}")
        self._record.upload = {"type": "text", "judged": True, "offset": 0, "bytes": len(data)}
        edited = await self._judge_text(text, judge)
        return data if edited == text else _replaced(data, edited, step)

    def _pass_unjudged(self, step: UploadStep, data: bytes, kind: str) -> None:
        """Check and record bytes that are forwarded unjudged.

        `kind` is the type of the file, or empty if the bytes are not its beginning.
        """
        types, most = self._routes.file_types, self._routes.file_bytes
        if not types or (kind and not any(fnmatchcase(kind, each) for each in types)):
            allowed = f"text in UTF-8 or {', '.join(types)}" if types else "text in UTF-8"
            raise _refused(
                f"a file must be {allowed}, by its bytes; this one is of the type {kind or 'unknown'}"
            )
        if step.offset + len(data) > most:
            raise _refused(f"a file that is not judged is limited to {pluralize(most, 'byte')}")
        described = {"type": kind} if kind else {}
        self._record.upload = {**described, "judged": False, "offset": step.offset, "bytes": len(data)}

    async def _judge_text(self, text: str, judge: Judge) -> str:
        """Return the text after BeforeModel hooks. Raises ApiError if they end the upload."""
        request: JsonObject = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        outcome = await judge.fire(BeforeModel("", request))
        judge.raise_if_ended(outcome.verdict, BeforeModel.name)
        contents = read(outcome.event.body, "contents")
        if not isinstance(contents, list) or len(contents) != 1:
            raise policy_denied(
                "A hook's edit cannot be sent as a file: it must be one turn.", BeforeModel.name
            )
        parts = read(contents[0], "parts")
        if not isinstance(parts, list) or not all(map(is_text, parts)):
            raise policy_denied("A hook's edit cannot be sent as a file: it must be text.", BeforeModel.name)
        return joined_text(contents[0])


def _description(body: JsonObject) -> JsonObject:
    """Return the file in the body that starts an upload. Raises BodyError for what hooks would not see."""
    body = make_canonical(body)
    check_keys(body, "", ("file",))
    file = read(body, "file")
    if file is None:
        return {}
    check_keys(file, "file", ("name", "displayName", "mimeType", "sizeBytes"))
    for key, value in file.items():
        match camel(key):
            case "name" if isinstance(value, str) and _NAME.fullmatch(value):
                continue
            case "mimeType" if isinstance(value, str) and MEDIA_TYPE.fullmatch(value):
                continue
            case "sizeBytes" if re.fullmatch(r"[0-9]{1,15}", str(value)):
                continue
            case "displayName" if isinstance(value, str):
                continue
        if value is not None:
            raise BodyError(f"file.{key}", "hooks cannot inspect this value")
    return file  # type: ignore[no-any-return]  # it has been checked


def _replaced(data: bytes, text: str, step: UploadStep) -> bytes:
    """Return the bytes of a text that replaces others. An upload may have declared its length before."""
    try:
        new = text.encode()
    except UnicodeEncodeError:
        raise policy_denied(
            "A hook's edit cannot be sent as a file: it is not valid Unicode text.", BeforeModel.name
        ) from None
    if not step.resumable:
        return new
    if len(new) > len(data):
        raise policy_denied(
            "A hook's edit makes the file longer than its upload has declared; shorten the edit, or mask "
            "the text before it is uploaded.",
            BeforeModel.name,
        )
    return new.ljust(len(data))


def _refused(problem: str) -> ApiError:
    return ApiError(403, f"hookgate refuses this file: {problem}; {_REMEDY}.", "FILE_NOT_ALLOWED")
