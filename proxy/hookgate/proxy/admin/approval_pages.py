"""The pages of links: a call with a form to decide, or only a message.

What a model has written is shown as text: escaped, and with all that is invisible or changes the direction of
text made visible. The pages have no scripts.
"""

from html import escape
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from hookgate.proxy.approvals.requests import ApprovalRequest, shown_arguments, visible
from hookgate.proxy.errors import ApiError
from hookgate.proxy.server.bodies import read_bytes

_SHOWN_AT_FIRST = 4000
"""Characters of arguments that are shown before the reader has all of them shown."""

_FIELDS = 10
"""The most fields of the form."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.CONTENT_TYPE: "text/html; charset=utf-8",
}

_FORM = """<form method="post">
<p><label>For <select name="scope">
<option value="once">this call, once</option>
<option value="session">the same call in this session</option>
</select></label></p>
<p><label>Reason <input name="reason" maxlength="300"></label></p>
<p><button name="decision" value="approve">Approve</button>
<button name="decision" value="deny">Deny</button></p>
</form>"""


def link_page(
    message: str, request: ApprovalRequest | None = None, *, form: bool = False, status: int = 200
) -> web.Response:
    """Return a page. Everything in it that is not of this module is escaped."""
    about = "" if request is None else _about(request)
    body = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="robots" content="noindex"><title>Approval · hookgate</title>'
        '<link rel="stylesheet" href="../panel/base.css"><link rel="stylesheet" href="../panel/parts.css">'
        f"</head><body><main><h1>{escape(visible(message))}</h1>{about}"
        f"{_FORM if form else ''}</main></body></html>"
    )
    return web.Response(status=status, body=body.encode(errors="replace"), headers=_HEADERS)


def _about(request: ApprovalRequest) -> str:
    facts = {
        "Tool": request.tool,
        "Key": request.key or "none",
        "Team": request.team,
        "Agent": request.agent,
        "Session": request.session,
        "Hooks that ask": ", ".join(request.hooks),
        "Their reason": request.why,
        "Request": request.id,
    }
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{escape(visible(value))}</dd></div>"
        for name, value in facts.items()
        if value
    )
    return f'<dl class="facts">{rows}</dl><h2>Arguments</h2>{_arguments(shown_arguments(request))}'


def _arguments(shown: str) -> str:
    if len(shown) <= _SHOWN_AT_FIRST:
        return _text(shown)
    return (
        f"<p><strong>The first {_SHOWN_AT_FIRST:,} of {len(shown):,} characters. Read all before you decide."
        f"</strong></p>{_text(shown[:_SHOWN_AT_FIRST] + '…')}"
        f"<details><summary>Show all {len(shown):,} characters</summary>{_text(shown)}</details>"
    )


def _text(shown: str) -> str:
    return f'<pre class="wrapped">{escape(shown)}</pre>'


async def read_form(request: web.BaseRequest) -> dict[str, str]:
    """Return the fields of a form. Raises ApiError."""
    data = await read_bytes(request)
    try:
        return dict(parse_qsl(data.decode(errors="replace"), max_num_fields=_FIELDS))
    except ValueError:
        raise ApiError(400, "The form has too many fields. Open the link again.") from None
