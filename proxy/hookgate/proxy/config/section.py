"""What all sections of the settings have in common."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from hookgate.proxy.config.values import masked


class Section(BaseModel):
    """One table of hookgate.toml. Unknown names are errors: a limit that is misspelt would not be one."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,  # what is wrong may hold a password, or a key
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What `repr` and `str` show: no password."""
        for name, value in super().__repr_args__():
            yield name, masked(value) if isinstance(value, str) else value
