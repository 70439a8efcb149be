"""`hookgate redact ...`: lists what redaction finds, and finds it in files."""
