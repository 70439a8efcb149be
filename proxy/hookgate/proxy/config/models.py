"""The gateway's settings, section by section. The docstrings document each setting."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from hookgate.proxy import GEMINI_API
from hookgate.proxy.config.destination import (
    DESTINATION_PATTERN,
    Destination,
    destination_url,
    parse_destination,
)
from hookgate.proxy.config.values import (
    Address,
    AddressOrOff,
    ApiKey,
    ApiOrigin,
    Count,
    Delay,
    File,
    Groups,
    HeaderName,
    HostName,
    HttpsUrl,
    KeyName,
    Location,
    ModelPattern,
    Origin,
    Positive,
    Project,
    ProxyUrl,
    PublicUrl,
    SecretUrl,
    Section,
    Sha256,
    StoreUrl,
    Token,
    WebOrigin,
    Window,
)
from hookgate.proxy.route_groups import Unhooked

VERTEX_API = "https://aiplatform.googleapis.com"

FileType = Literal[
    "application/pdf",
    "audio/*",
    "audio/aac",
    "audio/aiff",
    "audio/flac",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "image/*",
    "image/avif",
    "image/gif",
    "image/heic",
    "image/heif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "video/*",
    "video/3gpp",
    "video/avi",
    "video/mp4",
    "video/mpeg",
    "video/quicktime",
    "video/webm",
    "video/wmv",
    "video/x-flv",
]
"""Types of files that the gateway recognizes, and groups of them."""


class ListenSettings(Section):
    """Where clients connect."""

    address: Address = "127.0.0.1:8787"
    """`HOST:PORT`. Port 0 selects a free port, which is logged."""

    url: PublicUrl | None = None
    """The URL at which clients reach the gateway behind a proxy, such as `https://host/gemini`: uploads are
    sent there, and its path is accepted before that of each call. By default the scheme and the host of a
    request are used. `X-Forwarded-*` is never read.
    """

    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """The number of processes that serve clients, at most that of processors. With more than one, a
    supervisor restarts those that end, and serves the admin listener.
    """

    certificate: File | None = None
    """A PEM file with the certificate chain, to serve https. Gemini CLI requires https except on
    localhost."""

    key: File | None = None
    """A PEM file with the certificate's private key; by default the file of the certificate."""

    @property
    def path_prefix(self) -> str:
        """The path of `url`, without a slash at its end; empty if there is none."""
        return urlsplit(self.url).path if self.url else ""

    @model_validator(mode="after")
    def _key_has_a_certificate(self) -> Self:
        if self.key and not self.certificate:
            raise ValueError(
                "listen.key needs listen.certificate; set listen.certificate, or remove listen.key"
            )
        return self


class AdminSettings(Section):
    """The listener for operators: the panel, `/healthz`, `/readyz` and `/metrics`, separate from clients."""

    address: AddressOrOff = "127.0.0.1:9787"
    """`HOST:PORT`, or `off` to disable the listener."""

    token: Token | None = None
    """The token that operators need for the panel and for receipts. By default a new one is created at each
    start, kept in the state folder, and logged in a link.
    """

    token_file: File | None = None
    """A file that contains only that token. It is read at startup."""

    hosts: tuple[HostName, ...] = ()
    """Host names that are accepted for `/readyz` and `/metrics`, in addition to addresses, this machine's
    name, names without a dot, and names that end in `.svc`, `.cluster.local`, `.internal` or `.localhost`."""

    @model_validator(mode="after")
    def _has_one_token(self) -> Self:
        if self.token and self.token_file:
            raise ValueError("admin.token and admin.token_file are both set; remove one")
        return self


RoleMember = Annotated[str, Field(min_length=1, max_length=256)]


class SignInSettings(Section):
    """Sign-in of people to the panel at an OpenID Connect provider, in addition to the admin token. It needs
    the extra `tokens`: `pip install '.[tokens]'` in a checkout. [The panel](panel.md#people) describes the
    setup."""

    issuer: HttpsUrl | None = None
    """The provider's issuer, exactly as it names itself. Its endpoints and keys are read from
    `ISSUER/.well-known/openid-configuration`. Without it there is no sign-in."""

    client_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The client ID with which the panel is registered at the provider."""

    client_secret: Annotated[SecretStr, Field(min_length=1, max_length=512)] | None = None
    """The secret of that registration, if the provider has given one. It is better kept in a file."""

    client_secret_file: File | None = None
    """A file that contains only that secret. It is read at startup."""

    url: HttpsUrl | None = None
    """The panel's URL in the browsers of its users. The redirect URI to register at the provider is this URL
    with `/sign-in` appended."""

    scopes: tuple[RoleMember, ...] = ("openid", "email", "profile")
    """The scopes to ask for. Some providers need another one to send the claim of `roles_claim`."""

    roles_claim: Annotated[str, Field(min_length=1, max_length=128)] = "groups"
    """The claim of the ID token whose values give people their roles: a string, or a list of strings. People
    must not be able to choose it themselves."""

    name_claim: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """The claim that names people in the panel, the log and the audit, by default the verified email address
    or, without one, `sub`. People must not be able to choose it themselves."""

    viewers: tuple[RoleMember, ...] = ()
    """Values of `roles_claim`, and email addresses, of people who may see everything except content:
    prompts, answers, tool calls, reasons of denials, and errors of hooks. An email address counts only if
    the provider has verified it (`email_verified`). People without any role are refused."""

    auditors: tuple[RoleMember, ...] = ()
    """The same for people who may also see content."""

    admins: tuple[RoleMember, ...] = ()
    """The same for people who may also switch hooks on and off."""

    session_hours: Positive = 8
    """Hours after which people have to sign in again. Until then they keep the role that they signed in
    with."""

    @model_validator(mode="after")
    def _is_unambiguous(self) -> Self:
        if self.client_secret and self.client_secret_file:
            raise ValueError("sign_in.client_secret and sign_in.client_secret_file are both set; remove one")
        if self.roles_claim == "email":
            raise ValueError("sign_in.roles_claim: verified email addresses always count; name another claim")
        return self


class UpstreamSettings(Section):
    """The upstreams. Each API has one origin, which no request can choose. Only calls with the gateway's own
    credentials for Vertex AI go to the location that the credential names."""

    gemini: ApiOrigin = GEMINI_API
    """The base URL of the Gemini API."""

    vertex: ApiOrigin = VERTEX_API
    """The base URL of Vertex AI. For calls with one of the gateway's credentials, the default becomes that
    of the credential's location; any other URL is used for all locations."""

    code_assist: ApiOrigin = "https://cloudcode-pa.googleapis.com"
    """The base URL of Code Assist, which Gemini CLI uses with a Google login."""

    gemini_key: ApiKey | None = None
    """The gateway's own API key for the Gemini API, with which calls with issued keys are sent, before those
    of `[credentials.NAME]`. It is better kept in a file or a variable.
    """

    gemini_key_file: File | None = None
    """A file that contains only that key. It is read at startup."""

    vertex_key: ApiKey | None = None
    """The same for Vertex AI."""

    vertex_key_file: File | None = None
    """A file that contains only that key. It is read at startup."""

    request_headers: tuple[HeaderName, ...] = ()
    """Request headers that are passed on to the upstreams, in addition to those of [the
    gateway](gateway.md#requests), unseen by hooks. Headers with credentials, about the connection, the body
    or the route are refused.
    """

    proxy: ProxyUrl | None = None
    """The http:// URL of a proxy for upstream connections. Proxies in the environment are not used."""

    ca_bundle: File | None = None
    """A PEM file with the certificate authorities to trust instead of the system's."""

    connect_timeout: Positive = 10
    """Seconds to set up a connection, including TLS, and to wait for an access token of a credential."""

    header_timeout: Positive = 300
    """Seconds to wait for all headers of an answer: the model may think before its first word."""

    idle_timeout: Positive = 300
    """Seconds that an answer may pause once it has begun."""

    @model_validator(mode="after")
    def _has_one_key_for_each_api(self) -> Self:
        for api in ("gemini", "vertex"):
            if getattr(self, f"{api}_key") and getattr(self, f"{api}_key_file"):
                raise ValueError(f"upstream.{api}_key and upstream.{api}_key_file are both set; remove one")
        return self


class HookSettings(Section):
    """The settings files that hooks are read from."""

    policy: tuple[File, ...] = ()
    """Settings files whose hooks run first. Other files cannot disable these hooks."""

    files: tuple[File, ...] = ()
    """Settings files with hooks, highest precedence first."""

    database: bool = False
    """Whether the policy that `hookgate policy push` has stored in the database of `[store]` is used. Its
    hooks run first, and no file can disable them. If none is stored, the gateway does not start.
    """

    project: File | None = None
    """A project folder. Settings are read as Gemini CLI reads them: the project's, the user's, the
    system's."""

    trust_project: bool = False
    """Whether the project's hooks run even if they are not trusted (`hookgate hooks trust`)."""

    state: File | None = None
    """The folder for hookgate's own state, such as trusted hooks; by default ~/.local/state/hookgate."""


class LimitSettings(Section):
    """Limits for clients."""

    body: Count = 64 * 1024 * 1024
    """Maximum size in bytes of a request that is shown to hooks, after decompression."""

    text: Count = 16 * 1024 * 1024
    """Maximum size in bytes of the text in such a request, or in an answer: long runs of base64, such as
    images, do not count, files of text do. A million tokens take less than 10 MB.
    """

    values: Count = 200_000
    """Maximum number of JSON values in such a request, or in an answer: objects, lists and their items. A
    string counts as one value."""

    items: Count = 10_000
    """Maximum number of messages, parts, tools, calls, results and requests of a batch in such a request or
    in an answer. Values in arguments and results of tools do not count.
    """

    inputs: Count = 2048
    """Maximum number of texts in one request for embeddings, which hooks judge one by one. Batches have only
    the limit `items`.
    """

    memory: Count = 512 * 1024 * 1024
    """Bytes of memory for all requests that are shown to hooks. One of more than 256 KiB that does not fit
    waits for `limits.body_timeout`, and is then refused. Large answers have as much again, and are refused
    beyond.
    """

    header_timeout: Positive = 10
    """Seconds from the first byte of a request to the end of its headers."""

    body_timeout: Positive = 30
    """Seconds that a request's body may pause."""

    reader_timeout: Positive = 60
    """Seconds that a client may pause while it reads its answer."""

    connections: Count = 10_000
    """Maximum number of client connections, lower if the limit of open descriptors does not allow as many. At
    the limit, a connection without a complete request is closed to make room; if there is none, a new one
    waits.
    """

    connections_per_address: Count | None = None
    """Maximum number of connections from one address (one /64 network in IPv6), by default unlimited, because
    all clients behind a proxy have one address. At the limit, the address's oldest connection without a
    complete request is closed; if there is none, the new one is.
    """

    events: Count = 1000
    """Events per second that one caller's agents may send; excess events are refused."""

    drain_delay: Delay = 0
    """Seconds for which a stopping gateway still accepts connections, so that a load balancer can switch to
    others: more than the balancer's idle timeout.
    """

    drain_timeout: Positive = 60
    """Seconds to wait for calls in progress when the gateway stops, after `limits.drain_delay`."""


class StreamSettings(Section):
    """How streamed answers are kept alive while hooks run."""

    header_timeout: Positive = 45
    """Seconds after which a streamed answer is started even if hooks have not decided: Gemini CLI waits
    60."""

    keep_alive: Positive = 15
    """Seconds without data after which bytes without meaning are sent to keep the connection alive."""


class ToolCallSettings(Section):
    """The treatment of tool calls that are not allowed. If a BeforeTool hook denies a tool call, the model is
    informed and asked again, which costs the tokens of a whole request each time; but a text replaces the
    call if the agent already has another call of the answer, if the answer has several candidates or is too
    large, and in batches."""

    refused: Literal["tell", "ask_again"] = "tell"
    """For tools that BeforeToolSelection did not allow. `tell`: a text replaces the call. `ask_again`: the
    model is informed and asked again, and the client receives only the new answer, and of a stream the events
    before the call."""

    bypass: Literal["flag", "deny"] = "flag"
    """For tools that ran although the agent's shim did not announce them. `flag`: the run is counted and
    logged. `deny`: the request is denied as well."""

    ask_again_at_most: Annotated[int, Field(ge=1, le=10)] = 2
    """How often the model is asked again in one call, by all hooks together. After that a text replaces the
    tool call, and a denied answer is sent as it is.
    """


class RouteSettings(Section):
    """The routes that are served in addition to those that hooks judge, and what they accept."""

    unhooked: tuple[Unhooked, ...] = ()
    """Generative routes to forward although hooks cannot judge them. Each such call is counted and marked.
    `interactions` also allows interactions that use agents or environments; the text of all interactions is
    always judged."""

    unknown_interactions: Literal["allow", "refuse"] = "allow"
    """`refuse` answers with 403 if a call continues, reads, changes, cancels or deletes an interaction that
    this gateway, or another one with the same database, does not know to belong to the caller's key."""

    live: Literal["refuse", "judge"] = "refuse"
    """`judge` lets hooks judge Live sessions of the Gemini API and Vertex AI: text, calls and results of
    tools, and transcriptions of speech, which the gateway requests. Video and ephemeral tokens are refused.
    Other WebSockets are refused unless `unhooked` lists `live`."""

    files: Literal["refuse", "judge", "forward"] = "refuse"
    """Uploads, imports and registrations of files, and calls that refer to files (`fileData`, `fileSearch`):
    `refuse` answers with 403, `forward` lets them through unjudged. `judge` lets hooks judge uploads of text,
    forwards those of `file_types`, and allows calls to refer to uploaded files; anything else is refused.
    Files can always be listed, read and deleted.
    """

    file_types: tuple[FileType, ...] = ()
    """Types of files that are forwarded unjudged with `files = "judge"`. A file's first bytes determine its
    type, whatever its upload declares."""

    file_bytes: Count = 20 * 1024 * 1024
    """Maximum size in bytes of such a file."""


class ShimSettings(Section):
    """Agents whose shim sends events."""

    believed: bool = True
    """Whether a client's claim to have a shim is believed, so that the events that a shim sends are not
    derived from its calls. If clients are not trusted, set `false`: then hooks always run on derived events.
    """


class ClientSettings(Section):
    """The clients that may make calls."""

    unknown_keys: Literal["allow", "refuse"] = "allow"
    """`refuse` answers calls with 403 if they have no key, or a key that is neither named below nor issued by
    the gateway."""

    open: bool = False
    """Whether the gateway may listen on an address that other machines can reach without refusing unknown
    keys.
    """

    issued_keys: bool = False
    """Whether clients may use keys of `hookgate keys create`. Their calls go upstream with
    `upstream.gemini_key_file`, or one of `[credentials.NAME]`.
    """

    origins: tuple[WebOrigin, ...] = ()
    """The origins of web pages whose scripts may call the gateway from a browser (CORS), such as
    `https://app.example`. Everybody who opens such a page can read the key that its script uses."""

    pepper_file: File | None = None
    """A file with the secret with which issued keys are hashed; by default `keys.pepper` in the state folder,
    which the gateway creates. Gateways that share a database need the same one."""


class TokenSettings(Section):
    """Tokens (JWTs) of an identity provider, which callers may send in place of issued keys. They need
    `clients.issued_keys`, and the extra `tokens`: `pip install '.[tokens]'` in a checkout."""

    issuer: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The issuer, exactly as in the claim `iss`. Without it no tokens are accepted."""

    audience: tuple[Annotated[str, Field(min_length=1, max_length=512)], ...] = ()
    """The accepted values of the claim `aud`; at least one."""

    jwks_url: HttpsUrl | None = None
    """The https URL of the issuer's public keys (JWKS), by default the one that the issuer publishes at
    `ISSUER/.well-known/openid-configuration`. They are read again when a token has an unknown key, but at
    most every 30 seconds, and after an hour."""

    jwks_file: File | None = None
    """A file with these keys, in place of a URL."""

    owner_claim: Annotated[str, Field(min_length=1, max_length=128)] = "sub"
    """The claim that names the caller, for `"when": {"keys": …}`, logs and the audit. A value that cannot be
    a name is replaced with its hash. Callers must not be able to choose it."""

    team_claim: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """The claim that names the caller's team, for `"when": {"teams": …}`."""


class NamedKey(Section):
    """A name for an API key, in its own table: `[keys.alice]`. The name stands for the key in
    `"when": {"keys": …}`, in logs and in the audit. A key has either `sha256` or `file`."""

    sha256: Sha256 | None = None
    """The SHA-256 of the key, 64 hex digits, as `hookgate keys hash` prints it."""

    file: File | None = None
    """A file that contains only the key. It is read at startup."""

    team: KeyName | None = None
    """The key's team, for `"when": {"teams": …}`."""

    @model_validator(mode="after")
    def _is_one_key(self) -> Self:
        if (self.sha256 is None) == (self.file is None):
            raise ValueError("needs exactly one of sha256 and file; `hookgate keys hash` prints a sha256")
        return self


class CredentialSettings(Section):
    """One of the gateway's credentials, in its own table: `[credentials.main]`. Calls with issued keys
    are sent with it. If there are several, the first one in the file is used; if it fails before the answer
    has begun, the next one. A credential is one of `key`, `key_file`, `service_account_file` and `default`.
    """

    api: Literal["gemini", "vertex"]
    """The API that the credential is for. Service accounts and default credentials need `vertex`."""

    key: ApiKey | None = None
    """An API key. It is better kept in a file."""

    key_file: File | None = None
    """A file that contains only an API key. It is read at startup."""

    service_account_file: File | None = None
    """The JSON file with the key of a Google service account. It is read at startup. This, and `default`,
    need the extra `google`: `pip install '.[google]'` in a checkout."""

    default: bool = False
    """Whether to use Google's Application Default Credentials: the file in the variable
    `GOOGLE_APPLICATION_CREDENTIALS`, for workload identity federation, too, or the metadata server of the
    machine or the Kubernetes cluster."""

    project: Project | None = None
    """The Google Cloud project to call. Service accounts and default credentials need it."""

    locations: tuple[Location, ...] = ("global",)
    """The locations of Vertex AI that calls may go to, in the order in which they are tried."""

    serves: tuple[Literal["gemini", "vertex"], ...] = ()
    """The APIs whose calls are sent with the credential; by default the one in `api`. A credential for Vertex
    AI can also serve calls to the Gemini API."""

    teams: tuple[KeyName, ...] = ()
    """The teams whose calls are sent with it; by default all calls."""

    @model_validator(mode="after")
    def _is_one_credential(self) -> Self:
        given = (self.key, self.key_file, self.service_account_file, self.default or None)
        if sum(each is not None for each in given) != 1:
            raise ValueError("needs exactly one of key, key_file, service_account_file and default")
        return self

    @model_validator(mode="after")
    def _can_be_used_for_its_apis(self) -> Self:
        if self.api == "gemini" and (self.has_tokens or self.project or "vertex" in self.serves):
            raise ValueError(
                'api = "gemini" needs key or key_file, and has no project and does not serve vertex; '
                'did you mean api = "vertex"?'
            )
        if self.has_tokens and not self.project:
            raise ValueError("needs project, the Google Cloud project to call")
        if not self.project and "locations" in self.model_fields_set:
            raise ValueError("locations need project, the Google Cloud project to call")
        if not self.locations or len(set(self.locations)) < len(self.locations):
            raise ValueError("locations must name at least one location, and each only once")
        return self

    @property
    def has_tokens(self) -> bool:
        """Whether access tokens are sent, and not an API key."""
        return self.default or self.service_account_file is not None


class TranscriptSettings(Section):
    """Transcripts: one file per session with the conversation. Hooks get its path as `transcript_path`."""

    enabled: bool = False
    """Whether transcripts are kept."""

    folder: File | None = None
    """The folder for transcripts; by default `transcripts` in the state folder."""

    max_bytes: Count = 10 * 1024 * 1024
    """Maximum size of a file in bytes. A full file is renamed to `.jsonl.1`, replacing an older one."""

    days: Positive | None = None
    """Days after which a file is removed that nothing was written to. By default they are kept."""


class StoreSettings(Section):
    """The database for the counters of limits, for interactions, for the audit, and for sessions that several
    processes share. It is opened only if it is needed."""

    url: StoreUrl | None = None
    """`postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`, which gateways share. By default files in the state
    folder are used: `hookgate.db` for counters, pins and interactions, `audit.db`, `alerts.db`,
    `approvals.db`, `panel.db` for sessions of the panel, and `sessions.db` of several workers.
    """

    url_file: File | None = None
    """A file that contains only that URL. It is read when the database is opened."""

    session_hours: Positive = 24
    """Hours that the database keeps a session after its last use, with what hooks changed in it."""

    interaction_days: Positive = 55
    """Days that the database remembers an interaction that has passed, after its creation. Google stores
    interactions for up to 55 days."""

    interaction_content: bool = False
    """Whether the turns of interactions are kept, too, so that hooks see the conversation that an interaction
    continues. They are stored as hooks left them, unencrypted."""

    @property
    def is_server(self) -> bool:
        """Whether the database is PostgreSQL."""
        return bool(self.url or self.url_file)

    @model_validator(mode="after")
    def _has_one_url(self) -> Self:
        if self.url and self.url_file:
            raise ValueError("store.url and store.url_file are both set; remove one")
        return self


class AuditSettings(Section):
    """The record of every call, in the database of `[store]` or, without a URL, in the file `audit.db` in the
    state folder. A call that cannot be recorded is refused."""

    enabled: bool = True
    """Whether calls are recorded."""

    content: Literal["off", "redacted", "full"] = "off"
    """Whether the content of calls is stored too. `redacted` masks secrets and personal data."""

    jsonl: File | None = None
    """A file to which each record is also written as a line of JSON; `-` for stdout, with one worker."""

    retention_days: Positive | None = None
    """Days after which records are removed. By default they are kept."""

    retention_bytes: Count | None = None
    """Maximum size of the records in the database in bytes. The oldest records are removed first."""

    content_days: Positive | None = None
    """Days after which the content of calls is removed. Their records stay, and the audit can still be
    verified. By default, content is kept as long as its record."""

    deadline: Positive = 5
    """Seconds that a call waits for its record to be on disk before it is refused."""


Variable = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class ExportSettings(Section):
    """An export of the audit's records, in its own table: `[exports.siem]`. [Exports](exports.md) describes
    the receivers and what is guaranteed. Each export has a position of its own, by its name."""

    to: Annotated[
        str,
        AfterValidator(destination_url),
        Field(json_schema_extra={"pattern": DESTINATION_PATTERN, "format": "uri"}),
    ]
    """The URL of the receiver. Its scheme names the kind: `otlp+https`, `syslog+tls`, `syslog+tcp`,
    `splunk+https`, `elastic+https`, `https` (a webhook), `s3` or `s3+https` (a service that is compatible
    with S3). With `http` in place of `https`, nothing is encrypted."""

    format: Literal["hookgate", "ocsf"] = "hookgate"
    """The form of each record: a line as of `hookgate audit export`, or an event of the Open Cybersecurity
    Schema Framework."""

    content: bool = False
    """Whether records contain the content of calls, as far as `audit.content` stores it. Needs the format
    `hookgate`."""

    history: bool = False
    """Whether the records that exist when the export is used for the first time are sent, too."""

    hold_retention: bool = True
    """Whether retention keeps records until they are sent. If not, records may be removed before."""

    secret_file: File | None = None
    """A file that contains only the secret: the token of Splunk, an encoded API key or `USER:PASSWORD` for
    Elastic, a bearer token for OTLP, `ACCESS_KEY:SECRET_KEY` for S3, and for a webhook the secret that signs.
    It is read at startup."""

    secret_variable: Variable | None = None
    """The name of an environment variable that contains this secret."""

    ca_bundle: File | None = None
    """A PEM file with the certificate authorities to trust instead of the system's."""

    certificate: File | None = None
    """A PEM file with a certificate chain, with which the gateway authenticates to the receiver."""

    key: File | None = None
    """A PEM file with the certificate's private key; by default the file of the certificate."""

    interval: Positive | None = None
    """Seconds between two looks for new records, so about the time until they are sent; by default 1, and 60
    for S3, where each batch is an object."""

    batch_bytes: Count | None = None
    """Bytes of a batch, unless a single record has more; by default 1 MiB, and 8 MiB for S3."""

    lock_days: Positive | None = None
    """Days for which objects in S3 are locked. The bucket needs object lock."""

    lock_mode: Literal["governance", "compliance"] = "governance"
    """How they are locked. In the mode `compliance` nobody can remove them before, not even the account's
    owner."""

    @property
    def destination(self) -> Destination:
        """The receiver."""
        return parse_destination(self.to)

    @property
    def interval_seconds(self) -> float:
        """The interval, or its default for the kind of receiver."""
        return self.interval or (60.0 if self.destination.kind == "s3" else 1.0)

    @property
    def batch_size(self) -> int:
        """The bytes of a batch, or the default for the kind of receiver."""
        return self.batch_bytes or (8 if self.destination.kind == "s3" else 1) * 1024 * 1024

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        kind, has_secret = self.destination.kind, bool(self.secret_file or self.secret_variable)
        if self.secret_file and self.secret_variable:
            raise ValueError("secret_file and secret_variable are both set; remove one")
        if kind in ("splunk", "webhook") and not has_secret:
            raise ValueError(
                "needs secret_file or secret_variable: the token, or what a webhook is signed with"
            )
        if kind == "syslog" and has_secret:
            raise ValueError("syslog has no secret; authenticate with certificate and key, or remove it")
        if has_secret and not self.destination.is_private:
            raise ValueError("to: must use TLS, because others could read the secret; use https")
        if self.format == "ocsf" and self.content:
            raise ValueError('content needs format = "hookgate": events of OCSF have no place for it')
        return self

    @model_validator(mode="after")
    def _has_what_its_kind_uses(self) -> Self:
        target = self.destination
        if self.key and not self.certificate:
            raise ValueError("key needs certificate; set certificate, or remove key")
        if (self.certificate or self.ca_bundle) and not target.secure:
            raise ValueError("certificate and ca_bundle need a URL with TLS; use https, or remove them")
        if self.certificate and target.kind == "s3":
            raise ValueError("S3 has no client certificates; remove certificate")
        if target.kind != "s3" and {"lock_days", "lock_mode"} & self.model_fields_set:
            raise ValueError("lock_days and lock_mode are only for S3; remove them")
        return self


class PriceSettings(Section):
    """The prices of models."""

    file: File | None = None
    """The price table, a TOML file, which is read at startup. By default Google's list prices in US dollars,
    which `hookgate config prices` prints. Models that are not in it have no cost.
    """


class MetricSettings(Section):
    """The labels of `/metrics`."""

    models: tuple[ModelPattern, ...] = ()
    """Models, with wildcards, that get their own label, like those of the price table. All others are
    labelled `other`."""


class TracingSettings(Section):
    """Traces for OpenTelemetry. They need the extra `otel`: `pip install '.[otel]'` in a checkout."""

    endpoint: Origin | None = None
    """The base URL of a collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`. Without it
    there are no traces."""

    service_name: Annotated[str, Field(min_length=1)] = "hookgate"
    """The name of the gateway in traces."""

    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of calls to trace. A call with a `traceparent` is traced if its caller is."""

    content: bool = False
    """Whether spans contain the content of calls, as edited by hooks."""


class LogSettings(Section):
    """The log on stderr."""

    format: Literal["text", "json"] = "text"
    """`json`: one object per line, with the request's ID."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest severity that is logged."""


class AlertRule(Section):
    """A rule: the calls that it counts, and when it alerts. [Alerts](alerts.md) has examples."""

    name: KeyName
    """Its name, which must be unique."""

    query: Annotated[str, Field(max_length=500)] = ""
    """The calls to count, in [the words of queries](answers.md#queries) except those about time and order,
    such as `outcome:denied team:web`; by default all."""

    trouble: Literal["audit"] | None = None
    """In place of a query, trouble of a gateway itself: `audit` if it cannot write its audit."""

    count: Literal["calls", "tokens", "cost"] = "calls"
    """What is counted of these calls."""

    over: Delay = 0
    """The rule alerts if there is more than this."""

    at: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = (100,)
    """Percentages of `over`, each of which has an alert of its own: `[80, 100]` for a budget."""

    within: Window = "5m"
    """The time over which is counted, up to now: `30s`, `5m`, `1h` or `7d`; `day` and `month` begin at
    midnight and on the first, in UTC. If it is longer than a day, the query may only contain words that name
    callers, models, agents and outcomes."""

    by: Groups | None = None
    """What is counted apart, with an alert for each: one or several of `key`, `owner`, `team`, `session`,
    `model`, `asked`, `agent` and `outcome`, separated by commas."""

    new: bool = False
    """Whether only what is new counts: groups of `by` of which no call is known from before `within`,
    although calls of the group without its last name are. `by = "key,agent"` finds keys that a new agent
    uses."""

    severity: Literal["info", "warning", "error", "critical"] = "warning"
    """The severity. Alerts at less than 100 percent are at most a `warning`."""

    receivers: tuple[KeyName, ...] = ()
    """The names of the receivers; by default all."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        counting = {"query", "count", "over", "at", "within", "by", "new"} & self.model_fields_set
        if self.trouble and counting:
            raise ValueError(f"trouble is not about calls, so it has no {min(counting)}; remove one of them")
        if self.new and self.by is None:
            raise ValueError('new needs by, what may be new; write by = "key,agent"')
        if not self.at or list(self.at) != sorted(set(self.at)):
            raise ValueError("at must name at least one percentage, in increasing order")
        if self.at != (100,) and not self.over:
            raise ValueError("at needs over, of which these are percentages")
        return self


class AlertReceiver(Section):
    """Where alerts are sent to."""

    name: KeyName
    """Its name, which must be unique."""

    type: Literal["json", "slack", "teams", "pagerduty"] = "json"
    """The format: signed JSON, an incoming webhook of Slack, a workflow of Microsoft Teams, or an integration
    of PagerDuty (Events API v2)."""

    url: SecretUrl | None = None
    """The URL. PagerDuty has a default. Those of Slack and Teams are secrets, better kept in a file."""

    url_file: File | None = None
    """A file that contains only the URL. It is read at startup."""

    secret: Annotated[SecretStr, Field(min_length=1, max_length=512)] | None = None
    """For JSON, the secret of its signature, as `hookgate alerts secret` prints it; for PagerDuty, the
    integration key. It is better kept in a file."""

    secret_file: File | None = None
    """A file that contains only the secret. It is read at startup."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.url and self.url_file:
            raise ValueError("url and url_file are both set; remove one")
        if self.secret and self.secret_file:
            raise ValueError("secret and secret_file are both set; remove one")
        if not (self.url or self.url_file) and self.type != "pagerduty":
            raise ValueError("needs url or url_file")
        if self.type in ("json", "pagerduty") and not (self.secret or self.secret_file):
            what = (
                "its integration key" if self.type == "pagerduty" else "as `hookgate alerts secret` prints it"
            )
            raise ValueError(f"needs secret_file or secret, {what}")
        if self.type in ("slack", "teams") and (self.secret or self.secret_file):
            raise ValueError(f"{self.type} has no secret but its URL; remove it")
        return self


class AlertSettings(Section):
    """Alerts about calls, budgets and the audit, which webhooks receive. They need the audit.
    [Alerts](alerts.md) describes them."""

    rules: tuple[AlertRule, ...] = Field(default=(), max_length=100)
    """The rules, each a table `[[alerts.rules]]`."""

    receivers: tuple[AlertReceiver, ...] = Field(default=(), max_length=20)
    """The receivers, each a table `[[alerts.receivers]]`."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [receiver.name for receiver in self.receivers]
        for kind, each in (("rules", [rule.name for rule in self.rules]), ("receivers", names)):
            if twice := next((name for name in each if each.count(name) > 1), None):
                raise ValueError(f"alerts.{kind}: two are named {twice}; rename one")
        for rule in self.rules:
            if unknown := next((name for name in rule.receivers if name not in names), None):
                known = f"known are {', '.join(names)}" if names else "describe it in [[alerts.receivers]]"
                raise ValueError(f"alerts.rules: {rule.name}: there is no receiver {unknown}; {known}")
        return self


class Approver(Section):
    """A person who is sent links to decide with, in addition to those with a role in the panel."""

    name: Annotated[str, Field(max_length=100, pattern="^[!-~]+( [!-~]+)*$")]
    """The name under which the person's decisions count and are recorded: the one that the panel shows, such
    as an email address, if the person can sign in there."""

    receiver: KeyName
    """The name of a receiver in `[[alerts.receivers]]` that only this person reads."""


class ApprovalSettings(Section):
    """Approvals: a person decides about tool calls for which a BeforeTool hook decides `ask`.
    [Approvals](approvals.md) describes them."""

    mode: Literal["off", "ticket", "hold"] = "off"
    """`ticket`: the call is denied until it is approved, and passes when the model makes it again. `hold`:
    the answer waits for the decision, and is then denied like a ticket. `off`: hooks' `ask` lets the call
    pass, because the agent asks its user."""

    hold: Annotated[float, Field(ge=0.1, le=1800)] = 120
    """Seconds that an answer waits for a decision, with `mode = "hold"`."""

    expiry_hours: Annotated[float, Field(ge=0.01, le=168)] = 1
    """Hours after a request in which it can be decided, and in which its approval can be used."""

    days: Positive = 7
    """Days after which a request that is over is removed, with the arguments of its call."""

    persons: Annotated[int, Field(ge=1, le=2)] = 1
    """How many different persons must approve a call. One suffices to deny it."""

    role: Literal["auditor", "admin"] = "admin"
    """The role in the panel that a person needs to decide. Auditors see requests in any case."""

    own_calls: Literal["allow", "refuse"] = "allow"
    """`refuse`: nobody may approve a call whose key has the same name as the person."""

    receivers: tuple[KeyName, ...] = ()
    """The names of receivers in `[[alerts.receivers]]` that are told of requests with a link to the panel."""

    people: tuple[Approver, ...] = Field(default=(), max_length=20)
    """The people who are sent links to decide with, each a table `[[approvals.people]]`."""

    url: Origin | None = None
    """The URL at which people's browsers reach the admin listener; by default `sign_in.url`, or else
    `admin.address`."""

    secret: Annotated[SecretStr, Field(min_length=1, max_length=512)] | None = None
    """The secret that signs people's links, as `hookgate alerts secret` prints it. Gateways that share a
    database need the same one. It is better kept in a file."""

    secret_file: File | None = None
    """A file that contains only that secret. It is read at startup."""

    @property
    def are_enabled(self) -> bool:
        """Whether a person decides about calls."""
        return self.mode != "off"

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.secret and self.secret_file:
            raise ValueError("approvals.secret and approvals.secret_file are both set; remove one")
        if self.people and not (self.secret or self.secret_file):
            raise ValueError(
                "approvals.people need approvals.secret_file, which signs their links; write what "
                "`hookgate alerts secret` prints into it"
            )
        names = [each.name.casefold() for each in self.people]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"approvals.people: two are named {twice}; remove one")
        receivers = [*self.receivers, *(each.receiver for each in self.people)]
        if twice := next((name for name in receivers if receivers.count(name) > 1), None):
            raise ValueError(
                f"approvals: {twice} is named twice; a receiver is told once, and a person's is read by that "
                "person only"
            )
        return self


class Config(Section):
    """All settings of `hookgate serve`."""

    listen: ListenSettings = ListenSettings()
    admin: AdminSettings = AdminSettings()
    sign_in: SignInSettings = SignInSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    hooks: HookSettings = HookSettings()
    limits: LimitSettings = LimitSettings()
    streams: StreamSettings = StreamSettings()
    tools: ToolCallSettings = ToolCallSettings()
    routes: RouteSettings = RouteSettings()
    shims: ShimSettings = ShimSettings()
    clients: ClientSettings = ClientSettings()
    tokens: TokenSettings = TokenSettings()
    keys: Annotated[dict[KeyName, NamedKey], Field(json_schema_extra={"additionalProperties": False})] = {}  # noqa: RUF012  # pydantic copies defaults
    credentials: Annotated[
        dict[KeyName, CredentialSettings], Field(json_schema_extra={"additionalProperties": False})
    ] = {}  # noqa: RUF012  # pydantic copies defaults
    exports: Annotated[
        dict[KeyName, ExportSettings], Field(json_schema_extra={"additionalProperties": False})
    ] = {}  # noqa: RUF012  # pydantic copies defaults
    transcripts: TranscriptSettings = TranscriptSettings()
    store: StoreSettings = StoreSettings()
    audit: AuditSettings = AuditSettings()
    alerts: AlertSettings = AlertSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    prices: PriceSettings = PriceSettings()
    metrics: MetricSettings = MetricSettings()
    tracing: TracingSettings = TracingSettings()
    logs: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _workers_have_a_file_each_can_write(self) -> Self:
        if self.listen.workers > 1 and self.audit.jsonl == Path("-"):
            raise ValueError("audit.jsonl is stdout, which several workers cannot share; name a file")
        return self

    @property
    def approvals_url(self) -> str:
        """The URL at which people's browsers reach the admin listener; empty if it is not known."""
        if given := self.approvals.url or self.sign_in.url:
            return given.rstrip("/")
        address = self.admin.address or ""
        return "" if not address or address.endswith(":0") else f"http://{address}"
