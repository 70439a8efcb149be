"""The `hookgate` command and other programs, as users start them."""
