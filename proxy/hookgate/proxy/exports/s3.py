"""Receivers that are compatible with S3: each batch is an object of lines.

The name of an object says which writer's records it contains, and its first one. A batch that is sent again
replaces its object, or is another version of it, so that records are rarely there twice.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from hookgate.proxy.exports.documents import SentDocument
from hookgate.proxy.exports.receivers import Accepted, Delivery, ReceiverAccess, Rejected, Unavailable

_TIMEOUTS = {"connect_timeout": 5, "read_timeout": 10}
_TOO_LARGE = frozenset({"EntityTooLarge"})
_ANY_REGION = "us-east-1"
"""The region of services that are compatible with S3, if the environment names none."""


class S3Receiver:
    """A bucket. It blocks its thread, which serves no other export."""

    def __init__(self, access: ReceiverAccess) -> None:
        self._access = access
        destination = access.settings.destination
        _, self._bucket, *prefix = destination.path.split("/")
        self._prefix = "".join(f"{part}/" for part in prefix)
        try:
            self._client = _client(access)
        except BotoCoreError as error:
            raise ValueError(f"{access.settings.to}: {error}; check the variables and files of AWS") from None

    async def deliver(self, batch: Sequence[SentDocument]) -> Delivery:
        """Store documents as one object."""
        body = b"\n".join(document.encoded for document in batch) + b"\n"
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(batch[0]),
                Body=body,
                ContentType="application/x-ndjson",
                ChecksumAlgorithm="SHA256",  # a bucket with object lock requires a checksum
                **self._lock(),
            )
        except ClientError as error:
            reason = self._access.mask(str(error))
            is_too_large = error.response.get("Error", {}).get("Code") in _TOO_LARGE
            return Rejected(reason) if is_too_large else Unavailable(reason)
        except BotoCoreError as error:
            return Unavailable(self._access.mask(str(error)))
        return Accepted()

    async def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _key(self, first: SentDocument) -> str:
        day = datetime.fromtimestamp(first.at / 1000, UTC)
        return f"{self._prefix}{day:%Y/%m/%d}/{first.writer}-{first.seq:012d}.jsonl"

    def _lock(self) -> dict[str, Any]:
        settings = self._access.settings
        if settings.lock_days is None:
            return {}
        until = datetime.now(UTC) + timedelta(days=settings.lock_days)
        return {"ObjectLockMode": settings.lock_mode.upper(), "ObjectLockRetainUntilDate": until}


def _client(access: ReceiverAccess) -> Any:
    """Return a client. Without a secret it finds credentials as all of Amazon's tools do."""
    session, destination = Session(), access.settings.destination
    key, _, secret = access.secret.partition(":")
    if key:
        session.set_credentials(key, secret)
    endpoint = destination.origin if destination.host else None
    return session.create_client(
        "s3",
        region_name=session.get_config_variable("region") or (_ANY_REGION if endpoint else None),
        endpoint_url=endpoint,
        verify=str(access.settings.ca_bundle) if access.settings.ca_bundle else None,
        config=Config(
            retries={"total_max_attempts": 1},
            s3={"addressing_style": "path"} if endpoint else {},
            **_TIMEOUTS,
        ),
    )
