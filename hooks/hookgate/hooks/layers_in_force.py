"""Brings layers of settings into force, each apart from the others, and keeps what is in force."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hookgate.hooks.errors import SettingsError, is_exhaustion
from hookgate.hooks.settings import GEMINI_LAYERS, LAYERS, Configuration, SettingsSource
from hookgate.hooks.settings.layers import merge_layers
from hookgate.hooks.settings.reading import LayerReading, read_layer
from hookgate.hooks.timestamps import utc_text

log = logging.getLogger("hookgate.hooks")

Built = TypeVar("Built")

_OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class NotInForce:
    """Settings that cannot be used as they are now. What was read from them before, if any, stays in force.

    `layer` is "operator" for the files that an operator names, and `file` the first one with a problem.
    `since` is the time in UTC since when they could not be used.
    """

    layer: str
    file: str
    since: str
    reason: str
    binds_all: bool = True
    """Whether the settings affect all hooks, rather than their own ones only."""


class LayersInForce(Generic[Built]):
    """The layers that are in force, and those that are not.

    The files that an operator names come into force together, because a hook may move from one to another.
    Every other file is a unit of its own. Whatever it contains, the other units come into force.
    """

    def __init__(self, build: Callable[[Configuration], Built]) -> None:
        """`build` makes what uses a configuration. It may raise any exception."""
        self._build = build
        self._units: dict[str, tuple[LayerReading, ...]] = {}
        self._sources: dict[str, SettingsSource] = {}
        self._warned: frozenset[str] = frozenset()
        self.not_in_force: dict[str, NotInForce] = {}
        """The units that cannot be used as they are now."""
        self.refusals = 0
        """The number of times that a unit could not be used."""
        self.retry = False
        """Whether a unit could not be read for want of a resource."""

    def bring(self, sources: Iterable[SettingsSource], *, binding: bool | None = None) -> Built | None:
        """Read sources and bring them into force.

        Returns what was built last, or None if there is nothing new to use. `binding` restricts this to the
        layers that affect all hooks, or to the others; what is in force of the rest stays. Raises what means
        that this machine has run out of a resource, unless only layers of the second kind are concerned.
        """
        units: dict[str, list[SettingsSource]] = {}
        for source in sources:
            if binding is None or source.binds_all is binding:
                units.setdefault(_unit_of(source), []).append(source)
                self._sources.setdefault(_unit_of(source), source)
        self.retry = False
        read: dict[str, tuple[LayerReading, ...]] = dict.fromkeys(self._gone(units, binding), ())
        for unit, unit_sources in units.items():
            readings = tuple(filter(None, map(read_layer, unit_sources)))
            self.retry |= any(reading.retry for reading in readings)
            problems = [str(each) for reading in readings if reading.unusable for each in reading.problems]
            if problems:
                problems += self._further_problems(readings)
                self._warn([str(warning) for reading in readings for warning in reading.warnings])
                self._refuse(unit, readings, "\n".join(problems))
            elif binding is not False or self._is_new(unit, readings):
                read[unit] = readings
        used = self._use(read) if read or binding is None else None
        for unit in read.keys() - units.keys() - self.not_in_force.keys():
            del self._units[unit], self._sources[unit]
        return used

    def _gone(self, units: Mapping[str, object], binding: bool | None) -> list[str]:
        """Return the units that are no longer among the sources."""
        there = {unit: source.binds_all for unit, source in self._sources.items()}
        return [unit for unit, binds in there.items() if unit not in units and binding in (None, binds)]

    def _is_new(self, unit: str, readings: tuple[LayerReading, ...]) -> bool:
        if unit in self.not_in_force:
            return True
        before = self._units.get(unit, ())
        return [reading.text for reading in before] != [reading.text for reading in readings]

    def _use(self, read: Mapping[str, tuple[LayerReading, ...]]) -> Built | None:
        """Build with all units that were read or, if that is not possible, with one after the other."""
        loaded = None
        try:
            loaded = merge_layers(_all({**self._units, **read}))
            built = self._build(loaded.configuration)
        except Exception as error:
            if is_exhaustion(error):
                self.retry = True
                if all(self._sources[unit].binds_all for unit in read):
                    raise
            if len(read) == 1:
                [(unit, readings)] = read.items()
                self._refuse(unit, readings, _reason(error, readings))
                return None
            last = None
            for unit in sorted(read, key=lambda unit: LAYERS.index(self._sources[unit].layer)):
                last = self._use({unit: read[unit]}) or last
            return last
        self._units.update(read)
        for unit in read:
            if self.not_in_force.pop(unit, None):
                log.info("the %s settings are in force again", unit)
        warnings = [
            *map(str, loaded.warnings),
            *(f"{p} (the other settings are in use)" for p in loaded.ignored),
        ]
        self._warn(warnings)
        return built

    def _warn(self, warnings: Sequence[str]) -> None:
        """Log warnings, except for those that were logged last time."""
        for warning in warnings:
            if warning not in self._warned:
                log.warning("%s", warning)
        self._warned = frozenset(warnings)

    def _further_problems(self, readings: tuple[LayerReading, ...]) -> list[str]:
        """Return the problems of those hooks that could be read, such as wrong options."""
        try:
            self._build(merge_layers(readings).configuration)
        except SettingsError as error:
            return str(error).splitlines()
        except Exception:  # it is reported once the settings can be read
            return []
        return []

    def _refuse(self, unit: str, readings: tuple[LayerReading, ...], reason: str) -> None:
        source = next((reading.source for reading in readings if reading.unusable), self._sources[unit])
        layer = _OPERATOR if unit == _OPERATOR else source.layer
        self.refusals += 1
        before = self.not_in_force.get(unit)
        since = before.since if before else utc_text(precision="seconds")
        self.not_in_force[unit] = NotInForce(layer, str(source.path), since, reason, source.binds_all)
        is_start = not self._units
        if (before is None or before.reason != reason) and not (is_start and source.binds_all):
            stays = "what was read from them before stays in use" if self._units.get(unit) else "they are not"
            level = logging.ERROR if source.binds_all else logging.WARNING
            log.log(level, "the %s settings cannot be used, so %s: %s", layer, stays, reason)


def _unit_of(source: SettingsSource) -> str:
    return str(source.path) if source.layer in GEMINI_LAYERS else _OPERATOR


def _all(units: Mapping[str, tuple[LayerReading, ...]]) -> list[LayerReading]:
    return [reading for readings in units.values() for reading in readings]


def _reason(error: Exception, readings: tuple[LayerReading, ...]) -> str:
    """Return why settings that could be read cannot be used."""
    if isinstance(error, SettingsError):
        return str(error)
    log.debug("settings cannot be used", exc_info=error)
    paths = ", ".join(str(reading.source.path) for reading in readings)
    return f"{paths}: cannot be used: {type(error).__name__} while it came into force; please report this"
