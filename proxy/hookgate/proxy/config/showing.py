"""The settings in force, as they can be shown to anyone: no password, no token."""

from typing import Any

from hookgate.proxy.config.catalogue import NAMED, SETTINGS
from hookgate.proxy.config.reading import Effective
from hookgate.proxy.config.values import masked
from hookgate.proxy.sources import state_of


def shown_settings(effective: Effective) -> dict[str, tuple[Any, str]]:
    """Every setting's value and its source, by its dotted name."""
    document = effective.config.model_dump(mode="json")  # which masks secrets by itself
    document["hooks"]["state"] = str(state_of(effective.config.hooks))
    found = {}
    for name, setting in SETTINGS.items():
        value = document[setting.section][setting.key]
        shown = masked(value) if isinstance(value, str) else value
        found[name] = (shown, effective.places.get(name, "default"))
    for section in NAMED:
        for name, table in document[section].items():
            place = effective.places[f"{section}.{name}"]
            found |= {f"{section}.{name}.{key}": (value, place) for key, value in table.items()}
    return found
