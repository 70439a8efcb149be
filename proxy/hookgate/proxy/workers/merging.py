"""One picture of all workers, from what each reports: metrics, readiness, and the health of hooks."""

from collections.abc import Iterable, Mapping

from hookgate.hooks.runs import HookKey, HookStatus
from hookgate.translator.fields import JsonObject


def merged_metrics(pages: Mapping[int, bytes]) -> bytes:
    """Return the metrics of workers, by their numbers, as one page in Prometheus' text format.

    Each sample gets the label `worker`. Sums would fall when a worker is restarted, which Prometheus would
    take for a restart of all of them.
    """
    families: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
    for number, page in pages.items():
        label = b'worker="%d"' % number
        comments: list[bytes] = []
        samples: list[bytes] = []
        for line in page.splitlines():
            if line.startswith(b"# HELP "):
                comments, samples = families.setdefault(line.split(b" ", 3)[2], ([], []))
            if not line.startswith(b"#"):
                samples.append(_labelled(line, label))
            elif line not in comments:
                comments.append(line)
    lines = (line for comments, samples in families.values() for line in (*comments, *samples))
    return b"".join(line + b"\n" for line in lines)


def _labelled(sample: bytes, label: bytes) -> bytes:
    name = sample[: sample.index(b" ")] if b"{" not in sample else sample[: sample.index(b"{")]
    rest = sample[len(name) :]
    if rest.startswith(b"{"):
        return name + b"{" + label + b"," + rest[1:]
    return name + b"{" + label + b"}" + rest


def merged_health(reports: Iterable[list[JsonObject]]) -> dict[HookKey, HookStatus]:
    """Return the records of hooks, summed over all workers.

    A hook is degraded if its last run failed at any worker.
    """
    merged: dict[HookKey, HookStatus] = {}
    for record in (record for report in reports for record in report):
        event, name, target = record["hook"]
        status = merged.setdefault((event, name, target), HookStatus())
        status.runs += record["runs"]
        status.failures += record["failures"]
        status.denials += record["denials"]
        status.warning = record["warning"] or status.warning
        if record["error"] or not status.error:
            status.error, status.summary, status.seconds = (
                record["error"],
                record["summary"],
                record["seconds"],
            )
    return merged


def first_problem(answers: Mapping[int, JsonObject | None]) -> JsonObject | None:
    """Return the body of `/readyz` if a worker is not ready, or None. A worker that is down has no answer."""
    for number, answer in answers.items():
        if answer is None:
            return {"status": "unready", "reason": f"worker {number} is down, and is being restarted"}
        if answer["status"] != "ready":
            return {**answer, "reason": f"worker {number}: {answer['reason']}"}
    return None
