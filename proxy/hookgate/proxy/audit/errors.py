"""What goes wrong with the audit."""


class AuditError(Exception):
    """A record cannot be written in time. The text says why.

    `under_way`: its writing had begun, so that it may be written still.
    """

    def __init__(self, why: str, *, under_way: bool = False) -> None:
        super().__init__(why)
        self.under_way = under_way
