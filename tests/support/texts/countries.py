"""The countries whose telephone numbers are tested."""

# fmt: off
LARGEST_ECONOMIES = (
    "US", "CN", "DE", "JP", "IN", "GB", "FR", "IT", "CA", "BR", "RU", "ES", "KR", "AU",
    "MX", "TR", "ID", "NL", "SA", "PL", "CH", "TW", "BE", "SE", "IE", "AR", "AE", "SG",
    "IL", "AT", "NO", "TH", "VN", "PH", "BD", "MY", "DK", "CO", "HK", "ZA",
)
# fmt: on
"""The 40 largest."""
