"""The names of Model Armor's templates, in the options of policies."""

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

_TEMPLATE = re.compile(r"projects/[a-z0-9:.-]+/locations/[a-z0-9-]+/templates/[A-Za-z0-9_-]+")


def _template(value: str) -> str:
    """Return the value if it is a template's name. Raises PydanticCustomError if it is not."""
    if not _TEMPLATE.fullmatch(value):
        raise PydanticCustomError(
            "template", "must be a template's name: projects/PROJECT/locations/LOCATION/templates/TEMPLATE"
        )
    return value


TemplateName = Annotated[str, AfterValidator(_template)]
"""The resource name of a template of Model Armor."""
