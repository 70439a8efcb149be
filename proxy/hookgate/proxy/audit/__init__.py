"""The audit: durable records of each call, chained by hash, with tools to read, verify and remove them."""

from hookgate.proxy.audit.chain import AuditError
from hookgate.proxy.audit.trail import Audit

__all__ = ["Audit", "AuditError"]
