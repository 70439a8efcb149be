"""What is kept and told of calls: transcripts, the store, the audit, metrics, traces, the log."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hookgate.proxy.config.section import Section
from hookgate.proxy.config.values import Count, File, ModelPattern, Origin, Seconds, StoreUrl


class Transcripts(Section):
    """One file per session, whose path hooks are given as `transcript_path`. It holds what was said."""

    enabled: bool = False
    """Whether transcripts are kept."""

    folder: File | None = None
    """Where; the folder `transcripts` in the state folder if left out."""

    max_bytes: Count = 10 * 1024 * 1024
    """Bytes of a file; a new one begins then, and the old one is kept as `.jsonl.1`, one of a session."""


class Store(Section):
    """The database of what limits count and of the audit. None is opened where neither needs one."""

    url: StoreUrl | None = None
    """`postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`, for gateways that count together; if left out,
    files in the state folder: `hookgate.db` for what limits count, `audit.db` for the audit."""

    url_file: File | None = None
    """A file with that URL and nothing else, which is read when the database is opened."""

    @model_validator(mode="after")
    def _has_one_url(self) -> Self:
        if self.url and self.url_file:
            raise ValueError("store.url and store.url_file are both given; remove one")
        return self


class Audit(Section):
    """The record of every call, in the database of `[store]`; without a URL in the file `audit.db` in the
    state folder. A call that cannot be put on record is refused."""

    enabled: bool = True
    """Whether calls are put on record."""

    content: Literal["off", "redacted", "full"] = "off"
    """Whether what was said is stored too; `redacted` masks what looks like a secret or a person's data."""

    jsonl: File | None = None
    """A file that gets each record as a line of JSON too, `-` for stdout."""

    retention_days: Seconds | None = None
    """Days after which records are removed; kept for good if left out."""

    retention_bytes: Count | None = None
    """Bytes that records may take in the database; the oldest go first."""

    deadline: Seconds = 5
    """Seconds that a call waits for its record to be on disk before it is refused."""


class Prices(Section):
    """What models cost."""

    file: File | None = None
    """The price table, a TOML file, which is read at the start; limits on cost need one."""


class MetricLabels(Section):
    """How finely `/metrics` counts."""

    models: tuple[ModelPattern, ...] = ()
    """Models, with wildcards, that are told apart beside those of the price table; the rest is `other`."""


class Tracing(Section):
    """Traces for OpenTelemetry. They need the extra `otel`: `pip install 'hookgate[otel]'`."""

    endpoint: Origin | None = None
    """The base URL of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; without it
    there are no traces."""

    service_name: Annotated[str, Field(min_length=1)] = "hookgate"
    """What the gateway is called in them."""

    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of calls to trace; a call with a `traceparent` is traced when its caller is."""

    content: bool = False
    """Whether spans hold what was said, as hooks let it pass."""


class Logs(Section):
    """What goes to stderr."""

    format: Literal["text", "json"] = "text"
    """`json`: one object per line, with the request's id."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe lines that are written."""
