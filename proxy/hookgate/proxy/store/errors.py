"""What goes wrong with the store."""


class StoreError(ValueError):
    """The store cannot be used. The text holds no password."""
