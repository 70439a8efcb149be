"""Finds text for a model in what a tool returned, and adds up the points of findings close to each other."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from hookgate.hooks.policies.injections.readings import (
    decoded_texts,
    hidden_texts,
    invisible_texts,
    plain,
    without_tags,
)
from hookgate.hooks.policies.injections.rules import KINDS, InjectionFinding, search

_NEAR = 800
"""The number of bytes within which findings belong together."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Findings that are close together, as numbers of them by kind."""

    kinds: Counter[str]
    points: int
    """The points of all kinds, each counted once."""


NOTHING = Cluster(Counter(), 0)


def find(text: str, tools: Collection[str] = ()) -> list[list[InjectionFinding]]:
    """Return the findings of each reading of a text. `tools` are the names of declared tools.

    The time is proportional to the text.
    """
    characters = text.encode(errors="replace").decode()  # without lone surrogates, which nothing else takes
    return [list(found) for found in _readings(characters, tools)]


def _readings(text: str, tools: Collection[str]) -> Iterator[Iterable[InjectionFinding]]:
    yield search(plain(text), tools)
    shown = without_tags(text)
    if shown != text:
        yield search(plain(shown), tools)
    yield _with_kind("hidden", hidden_texts(text), tools)
    yield _with_kind("encoded", decoded_texts(text), tools)
    invisible = list(invisible_texts(text))
    if invisible:
        yield [InjectionFinding(0, "invisible"), *search(plain("\n".join(invisible)), tools)]


def _with_kind(kind: str, texts: Iterable[str], tools: Collection[str]) -> Iterator[InjectionFinding]:
    """Yield the findings in texts, and one of a kind beside each of them."""
    joined = "\n".join(texts)
    if joined:
        for finding in search(plain(joined), tools):
            yield finding
            yield InjectionFinding(finding.at, kind)


def highest(
    readings: Iterable[Iterable[InjectionFinding]], counts: Callable[[str], bool] = KINDS.__contains__
) -> Cluster:
    """Return the cluster with the most points. `counts` says whether a kind counts."""
    clusters = (_highest([finding for finding in found if counts(finding.kind)]) for found in readings)
    return max(clusters, key=lambda cluster: cluster.points, default=NOTHING)


def _highest(findings: list[InjectionFinding]) -> Cluster:
    ordered = sorted(findings, key=lambda finding: finding.at)
    kinds: Counter[str] = Counter()
    best, points, start = NOTHING, 0, 0
    for finding in ordered:
        points += 0 if kinds[finding.kind] else KINDS[finding.kind].points
        kinds[finding.kind] += 1
        while ordered[start].at < finding.at - _NEAR:
            left = ordered[start].kind
            kinds[left] -= 1
            points -= 0 if kinds[left] else KINDS[left].points
            start += 1
        if points > best.points:
            best = Cluster(+kinds, points)
    return best
