"""The file in which declarations of tools are kept."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Declaration(BaseModel):
    """One declaration of a tool."""

    model_config = ConfigDict(extra="forbid")

    digest: str
    """The SHA-256 of its canonical form."""
    seen: str
    """When it was first seen: ISO 8601, UTC."""
    text: str
    """The beginning of it, to read."""
    sessions: list[str] = []
    """Sessions that declare the tool so although it is not accepted."""


class Tool(BaseModel):
    """The declarations of one name."""

    model_config = ConfigDict(extra="forbid")

    accepted: list[Declaration] = Field(min_length=1)
    changed: list[Declaration] = []


class Content(BaseModel):
    """What the file holds: tools by name."""

    model_config = ConfigDict(extra="forbid")

    tools: dict[str, Tool] = {}


def load(path: Path) -> Content:
    """What the file holds; nothing when there is none. Raises OSError, and ValueError for another file."""
    try:
        return Content.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Content()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{path}: {place}: {first['msg']}; repair or remove it") from None


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """What tells one state of the file from another; None when there is none."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
