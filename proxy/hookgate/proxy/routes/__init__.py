"""What the gateway serves, matched on the raw request target. Pure."""

from hookgate.proxy.routes.matching import match, session_name
from hookgate.proxy.routes.route import Route
from hookgate.proxy.routes.table import TABLE, Api, Kind, Row

__all__ = ["TABLE", "Api", "Kind", "Route", "Row", "match", "session_name"]
