"""The panel's part of the admin listener: its files, its JSON, its events, and who may have them."""

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import hdrs, web

from hookgate.proxy.bodies import read_request
from hookgate.proxy.errors import ApiError
from hookgate.proxy.panel.access import Access
from hookgate.proxy.panel.api import Api
from hookgate.proxy.panel.files import HEADERS, Pages
from hookgate.proxy.panel.live import Live
from hookgate.proxy.protocol import error_response
from hookgate.translator.strictjson import dumps

log = logging.getLogger("hookgate")

_NOTHING = "There is nothing at this path of the admin listener."


class Panel:
    """Answers what is asked of the panel."""

    def __init__(self, access: Access, api: Api, live: Live, invitation: str = "") -> None:
        self.access = access
        self.invitation = invitation
        """What the log tells operators once the gateway runs: how to sign in, unless they know."""
        self.api, self.live = api, live
        self._pages = Pages()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, an error included."""
        try:
            return await self._answer(request)
        except ApiError as error:
            refusal = error
        except ConnectionError:
            raise  # the reader left
        except Exception:
            log.exception("the panel failed inside; please report this")
            refusal = ApiError(500, "hookgate failed inside; its log says how.")
        response = error_response(refusal)
        response.headers.update(HEADERS)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = urlsplit(request.raw_path)
        if not parts.path.startswith("/api/"):
            return self._page(request, parts.path)
        path = parts.path.removeprefix("/api/")
        if request.method == hdrs.METH_POST:
            response = await self._change(request, path)
            response.headers.update(HEADERS)
            return response
        self._check_method(request)
        self.access.check(request)
        if path == "live" and request.method == hdrs.METH_GET:
            return await self._events(request)
        return _found(await self.api.get(path, dict(parse_qsl(parts.query))))

    def _page(self, request: web.BaseRequest, path: str) -> web.Response:
        self._check_method(request)
        found = self._pages.get(path)
        if found is None:
            raise ApiError(404, _NOTHING)
        return found

    @staticmethod
    def _check_method(request: web.BaseRequest) -> None:
        if request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
            raise ApiError(403, "This path takes GET alone.")

    async def _change(self, request: web.BaseRequest, path: str) -> web.Response:
        self.access.check_change(request)
        match path:
            case "sign-in":
                body = await read_request(request)
                return self.access.sign_in(request, str(body.get("token", "")))
            case "sign-out":
                return self.access.sign_out(request)
            case "hooks/switch":
                self.access.check(request)
                body = await read_request(request)
                name, on = body.get("name"), body.get("on")
                if not isinstance(name, str) or not isinstance(on, bool):
                    raise ApiError(400, "hooks/switch takes a name, and on: true or false")
                log.info("%s asks to switch the hook %r %s", request.remote, name, "on" if on else "off")
                return _json(await self.api.hooks.switch(name, on))
        raise ApiError(404, _NOTHING)

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        with self.live.reading() as reader:
            headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "text/event-stream"}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            await response.write(b"retry: 2000\n\n")
            while (data := await reader.next()) is not None:
                await response.write(data)
        return response


def _found(body: Mapping[str, Any] | None) -> web.Response:
    if body is None:
        raise ApiError(404, _NOTHING)
    return _json(body)


def _json(body: Mapping[str, Any]) -> web.Response:
    headers = {**HEADERS, hdrs.CACHE_CONTROL: "no-store", hdrs.CONTENT_TYPE: "application/json"}
    return web.Response(body=dumps(body), headers=headers)
