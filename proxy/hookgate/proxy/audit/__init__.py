"""The audit: two durable records of each call, chained by hash, and what reads, proves and removes them."""

from hookgate.proxy.audit.errors import AuditError
from hookgate.proxy.audit.trail import Audit

__all__ = ["Audit", "AuditError"]
