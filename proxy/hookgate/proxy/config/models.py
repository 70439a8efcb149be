"""The gateway's settings, section by section. The docstrings are the documentation of each.

Every setting has a default that is sensible for a team on one machine: an empty configuration runs.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hookgate.proxy import GEMINI_API
from hookgate.proxy.config.recording import Audit, Logs, MetricLabels, Prices, Store, Tracing, Transcripts
from hookgate.proxy.config.section import Section
from hookgate.proxy.config.values import (
    Address,
    AddressOrOff,
    Count,
    File,
    HostName,
    KeyName,
    Origin,
    ProxyUrl,
    Seconds,
    Sha256,
    Token,
)

Unhooked = Literal["interactions", "openai", "live", "caches", "predict", "agents"]
"""Routes whose answers are generated and that no hook can judge yet."""


class Listen(Section):
    """Where clients connect."""

    address: Address = "127.0.0.1:8787"
    """`HOST:PORT`; port 0 takes a free one, which the log names."""

    certificate: File | None = None
    """A PEM file with the certificate chain: clients speak https. Gemini CLI demands it off localhost."""

    key: File | None = None
    """The PEM file of the certificate's private key; the certificate's own file, if left out."""

    @model_validator(mode="after")
    def _key_has_a_certificate(self) -> Self:
        if self.key and not self.certificate:
            raise ValueError("listen.key is of no use without listen.certificate; name both, or neither")
        return self


class Admin(Section):
    """Where operators look: the panel, `/healthz`, `/readyz` and `/metrics`, apart from where clients do."""

    address: AddressOrOff = "127.0.0.1:9787"
    """`HOST:PORT`, or `off` for no such listener."""

    token: Token | None = None
    """What operators have to show for the panel and for receipts. Without one the gateway makes a new one at
    each start, keeps it in its state folder, readable for its owner alone, and tells a link with it."""

    token_file: File | None = None
    """A file with that token and nothing else, which is read at the start."""

    hosts: tuple[HostName, ...] = ()
    """Names by which `/readyz` and `/metrics` may be asked for, besides addresses, this machine's name, names
    without a dot, and those that end in `.svc`, `.cluster.local`, `.internal` or `.localhost`."""

    @model_validator(mode="after")
    def _has_one_token(self) -> Self:
        if self.token and self.token_file:
            raise ValueError("admin.token and admin.token_file are both given; remove one")
        return self


class Upstream(Section):
    """Where calls go. Each API has one fixed origin: no request can choose another."""

    gemini: Origin = GEMINI_API
    """The base URL of the Gemini API."""

    vertex: Origin = "https://aiplatform.googleapis.com"
    """The base URL of Vertex AI."""

    code_assist: Origin = "https://cloudcode-pa.googleapis.com"
    """The base URL of Code Assist, which Gemini CLI uses with a Google login."""

    proxy: ProxyUrl | None = None
    """The http:// URL of a proxy on the way there, such as a company's; the environment's are not used."""

    ca_bundle: File | None = None
    """A PEM file with the certificate authorities to trust instead of the system's."""

    connect_timeout: Seconds = 10
    """Seconds to set up a connection, TLS included."""

    header_timeout: Seconds = 300
    """Seconds until an answer's headers are there: the model may think before its first word."""

    idle_timeout: Seconds = 300
    """Seconds that an answer may be silent once it has begun."""


class HookSources(Section):
    """Where hooks come from."""

    policy: tuple[File, ...] = ()
    """Settings files whose hooks run first and cannot be switched off elsewhere."""

    files: tuple[File, ...] = ()
    """Settings files with hooks, highest precedence first."""

    project: File | None = None
    """A folder whose settings are read as Gemini CLI reads them: the project's, yours, the system's."""

    trust_project: bool = False
    """Whether the project's hooks run without having been trusted (`hookgate hooks trust`)."""

    state: File | None = None
    """The folder of what hookgate remembers, such as trusted hooks; ~/.local/state/hookgate if left out."""


class Limits(Section):
    """What a client may ask of the gateway."""

    body: Count = 64 * 1024 * 1024
    """Bytes of a request that hooks are shown, after decompression: room for inline images."""

    text: Count = 16 * 1024 * 1024
    """Bytes of such a request, or of an answer, without its long runs of base64 such as inline images. What
    fills a context of a million tokens takes less than 10 MB."""

    values: Count = 200_000
    """JSON values in such a request, or in an answer: objects, lists and what stands in them. Text counts as
    one value, whatever it holds."""

    memory: Count = 512 * 1024 * 1024
    """Bytes that requests which hooks are shown may hold together. One that does not fit waits for
    `limits.body_timeout`, then it is refused."""

    header_timeout: Seconds = 10
    """Seconds from the first byte of a request to the end of its headers."""

    body_timeout: Seconds = 30
    """Seconds that a request's body may be silent."""

    reader_timeout: Seconds = 60
    """Seconds that a client may take nothing of its answer."""

    connections: Count = 10_000
    """Connections of clients at once, fewer where the limit on descriptors leaves no room for so many. For
    one more the one closes that is idle for longest; if none is, it waits until another has ended."""

    connections_per_address: Count | None = None
    """Connections of one address at once (of one /64 in IPv6); no bound if left out, since behind a proxy all
    clients have one. For one more the address's own idle ones close; if none is, it is closed itself."""

    events: Count = 1000
    """Events that one caller's agents may tell of per second; one more is refused."""

    drain_timeout: Seconds = 60
    """Seconds that calls in flight are given to finish when the gateway stops."""


class Streams(Section):
    """How streamed answers are kept up while hooks think."""

    header_timeout: Seconds = 45
    """Seconds until a streamed answer begins, decided or not: Gemini CLI gives up after 60."""

    keep_alive: Seconds = 15
    """Seconds of silence after which a line break keeps the connection up."""


class ToolCalls(Section):
    """What happens to a call of a tool that is not allowed. The model is always told of one that a BeforeTool
    hook denies, and asked again; each time costs the tokens of a whole request."""

    refused: Literal["tell", "ask_again"] = "tell"
    """What BeforeToolSelection did not allow. `tell`: a text takes its place. `ask_again`: the model is told,
    and answers anew unseen."""

    bypass: Literal["flag", "deny"] = "flag"
    """A tool that ran although the agent's shim never told of it: counted and logged, or denied as well."""

    ask_again_at_most: Annotated[int, Field(ge=1, le=10)] = 2
    """How often the model is asked again in one call, whichever hook refused something; then a text takes the
    place."""


class Routes(Section):
    """Which routes are served beside those that hooks judge."""

    unhooked: tuple[Unhooked, ...] = ()
    """Generative routes to let through although no hook judges them; each such call is counted and marked."""

    files: Literal["refuse", "forward"] = "refuse"
    """What is uploaded, imported or registered as a file, or written to a file search store, passes no hook;
    so do calls that refer to it later (`fileData`, `fileSearch`). `refuse` answers all of them with 403,
    `forward` lets them through. Files can be listed, read and deleted in any case."""


class Shims(Section):
    """Agents that tell of their own events."""

    believed: bool = True
    """Whether what a shim tells of is left out of what calls give away. A client could claim a shim and tell
    of nothing: `false` is for clients that are not trusted, and has hooks run for their calls in any case."""


class Clients(Section):
    """Who may call."""

    unknown_keys: Literal["allow", "refuse"] = "allow"
    """`refuse`: a call whose key has no name below, or that has no key, is answered 403."""


class NamedKey(Section):
    """A name for an API key, in a table of its own: `[keys.alice]`. It stands in for the key in
    `"when": {"keys": …}`, and wherever a key is told of. A key has `sha256` or `file`."""

    sha256: Sha256 | None = None
    """The SHA-256 of the key, 64 hex digits: `hookgate key-hash` prints it."""

    file: File | None = None
    """A file with the key itself and nothing else, which is read at the start."""

    team: KeyName | None = None
    """The team that the key is in, for `"when": {"teams": …}`."""

    @model_validator(mode="after")
    def _is_one_key(self) -> Self:
        if (self.sha256 is None) == (self.file is None):
            raise ValueError("has to have sha256 or file, and not both; `hookgate key-hash` prints a sha256")
        return self


class Config(Section):
    """All settings of `hookgate serve`."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    upstream: Upstream = Upstream()
    hooks: HookSources = HookSources()
    limits: Limits = Limits()
    streams: Streams = Streams()
    tools: ToolCalls = ToolCalls()
    routes: Routes = Routes()
    shims: Shims = Shims()
    clients: Clients = Clients()
    keys: Annotated[dict[KeyName, NamedKey], Field(json_schema_extra={"additionalProperties": False})] = {}  # noqa: RUF012  # pydantic gives each its own
    transcripts: Transcripts = Transcripts()
    store: Store = Store()
    audit: Audit = Audit()
    prices: Prices = Prices()
    metrics: MetricLabels = MetricLabels()
    tracing: Tracing = Tracing()
    logs: Logs = Logs()
