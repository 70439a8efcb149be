"""What is known of each call when it has ended: its record, made while it runs, and its receipt."""

from hookgate.proxy.records.firing import Firing
from hookgate.proxy.records.receipts import Receipts, receipt_of
from hookgate.proxy.records.record import CallRecord, HookTally
from hookgate.proxy.records.usage import Usage, UsageMeter

__all__ = ["CallRecord", "Firing", "HookTally", "Receipts", "Usage", "UsageMeter", "receipt_of"]
