"""The two ways a translation can fail. Each error names the place and what would be right there."""


class TranslatorError(ValueError):
    """Base of both; `path` names the place, e.g. `contents[2].parts[0].text`."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(path, message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class BodyError(TranslatorError):
    """A body that must not be read, because two readers could understand it differently."""

    status = 400
    """The HTTP status with which a server refuses such a body."""


class TooLargeError(BodyError):
    """A body that holds more than is parsed."""

    status = 413


class EditError(TranslatorError):
    """A hook's edit that cannot be applied. Nothing of it is applied: the body stays as it was."""

    def __init__(self, path: str, expected: str, got: object) -> None:
        super().__init__(path, f"expected {expected}, got {_shortly(got)}")


def _shortly(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
