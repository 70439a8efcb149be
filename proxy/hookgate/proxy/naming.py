"""Models that bodies name: the one that hooks are shown, or refused. Pure."""

import re

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes import Route
from hookgate.translator import MODEL_NAME
from hookgate.translator.fields import JsonObject, read, write

_PREFIX = "models/"


def model_of(route: Route, obj: JsonObject) -> str:
    """The path's model, or for Code Assist, whose path has none, the one that the object names.

    Raises ApiError (400) when there is none.
    """
    named = read(obj, "model")
    model = route.model or (named.removeprefix(_PREFIX) if isinstance(named, str) else "")
    if not re.fullmatch(MODEL_NAME, model):
        raise _refused("model: has to be the name of a model, such as models/gemini-2.5-flash")
    return model


def check_model(route: Route, model: str, obj: JsonObject, path: str = "") -> None:
    """Compare the model that an object of the body names, if any, with the `model` that hooks are shown.

    Raises ApiError (400), naming the place, when it is another one.
    """
    named = read(obj, "model")
    if named is not None and not _is_named(route, model, named):
        place = f"{path}.model" if path else "model"
        raise _refused(f"{place}: names another model than {model!r}, which this call is for")


def with_model(route: Route, model: str, obj: JsonObject) -> JsonObject:
    """The object naming this model, if it names one; the object itself when it does so already."""
    named = read(obj, "model")
    if not isinstance(named, str) or _is_named(route, model, named):
        return obj
    return write(obj, "model", _resource(route, model) if "/" in named else model)


def _is_named(route: Route, model: str, named: object) -> bool:
    """Whether a name is the model's: bare, in full, or what ends its full name."""
    return isinstance(named, str) and bool(named) and f"/{_resource(route, model)}".endswith(f"/{named}")


def _resource(route: Route, model: str) -> str:
    """The model's name in full, such as models/gemini-2.5-flash."""
    if not route.model:
        return f"{_PREFIX}{model}"
    return route.for_model(model).path.split("/", 2)[2].removesuffix(f":{route.verb}")


def _refused(why: str) -> ApiError:
    return ApiError(400, f"hookgate refuses the request body: {why}", "BODY_REFUSED")
