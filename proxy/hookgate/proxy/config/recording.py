"""Settings for the records of calls: transcripts, the store, the audit, metrics, traces, the log."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hookgate.proxy.config.values import Count, File, ModelPattern, Origin, Seconds, Section, StoreUrl


class TranscriptSettings(Section):
    """Transcripts: one file per session with the conversation. Hooks get its path as `transcript_path`."""

    enabled: bool = False
    """Whether transcripts are kept."""

    folder: File | None = None
    """The folder for transcripts; by default `transcripts` in the state folder."""

    max_bytes: Count = 10 * 1024 * 1024
    """Maximum size of a file in bytes. A full file is renamed to `.jsonl.1`, replacing an older one."""


class StoreSettings(Section):
    """The database for the counters of limits, for the audit, and for sessions that several processes share.
    It is opened only if it is needed."""

    url: StoreUrl | None = None
    """`postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`, for gateways that share counters and sessions. By
    default files in the state folder are used: `hookgate.db` for counters, `audit.db` for the audit, and
    `sessions.db` if several workers share sessions."""

    url_file: File | None = None
    """A file that contains only that URL. It is read when the database is opened."""

    session_hours: Seconds = 24
    """Hours after their last use for which the database keeps sessions, with what hooks changed in them."""

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

    retention_days: Seconds | None = None
    """Days after which records are removed. By default they are kept."""

    retention_bytes: Count | None = None
    """Maximum size of the records in the database in bytes. The oldest records are removed first."""

    deadline: Seconds = 5
    """Seconds that a call waits for its record to be on disk before it is refused."""


class PriceSettings(Section):
    """The prices of models."""

    file: File | None = None
    """The price table, a TOML file. It is read at startup. Limits on cost need it."""


class MetricSettings(Section):
    """The labels of `/metrics`."""

    models: tuple[ModelPattern, ...] = ()
    """Models, with wildcards, that get their own label, like those of the price table; others are `other`."""


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
    """`json`: one object per line, with the request's id."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe lines that are written."""
