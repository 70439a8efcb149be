"""What is known of each call when it has ended: its record, made while it runs, and its receipt."""

from hookgate.proxy.records.asked import Asked
from hookgate.proxy.records.content import Content
from hookgate.proxy.records.firing import Firing
from hookgate.proxy.records.receipts import Receipts, receipt_of
from hookgate.proxy.records.record import CallRecord, no_bytes
from hookgate.proxy.records.tally import HookTally
from hookgate.proxy.records.usage import Usage, UsageMeter

__all__ = [
    "Asked",
    "CallRecord",
    "Content",
    "Firing",
    "HookTally",
    "Receipts",
    "Usage",
    "UsageMeter",
    "no_bytes",
    "receipt_of",
]
