"""Which numbers the rules ask for: a name for each, how high it may be, and when it begins anew. Pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from hookgate.hooks.policies.limits.options import MEASURES, Measure, Rule
from hookgate.hooks.policies.limits.windows import window_at
from hookgate.hooks.session import Session


@dataclass(frozen=True, slots=True)
class Count:
    """One number that a rule bounds, in the window that ends at `ends`."""

    rule: Rule
    measure: Measure
    key: str
    most: float
    ends: datetime


def counts_of(rules: Iterable[Rule], session: Session, instant: datetime) -> Iterator[Count]:
    """The numbers that a call in the session is counted in at an instant."""
    for rule in rules:
        window = window_at(rule.window, instant)
        for measure in MEASURES:
            if (most := rule.most(measure)) is not None:
                about = [measure, rule.per, *_who(rule, session), rule.window, window.begins.isoformat()]
                key = json.dumps(about + _others(rule), separators=(",", ":"))
                yield Count(rule, measure, key, most, window.ends)


def _who(rule: Rule, session: Session) -> list[str]:
    """Whom the use is counted for. Callers without a key or a team have an empty one, and share it."""
    match rule.per:
        case "key":
            return [session.key]
        case "team":
            return [session.team]
        case "session":
            return [session.key, session.session_id]  # another key's session of this name is another one
        case "everyone":
            return []


def _others(rule: Rule) -> list[str]:
    """What else tells counts apart, at a bounded length: a database bounds that of a key."""
    models = json.dumps(sorted(rule.models)).encode()
    return [rule.name[:64], sha256(models).hexdigest()[:16]]
