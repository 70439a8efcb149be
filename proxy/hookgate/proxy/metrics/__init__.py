"""Numbers for Prometheus: `names` declares every one of them, `Metrics` fills them in."""

from hookgate.proxy.metrics.filling import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
