"""`hooks doctor`: every hook once, on a harmless event, and what is found on the way."""

from dataclasses import dataclass

from hookgate.hooks import Run, Session, SettingsError
from hookgate.hooks.events.reading import SAMPLES
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.queueing import FairQueue
from hookgate.hooks.running import Running
from hookgate.hooks.settings import Hook, HttpConfig
from hookgate.proxy.managing.loading import Hooks, read_hooks
from hookgate.proxy.sources import Sources

SLOW = 0.2
"""Seconds beyond which a hook is felt in a conversation; a Python script takes about 0.05."""

_SESSION = Session("hookgate-doctor")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one hook, or a file, gives reason to say; `bad` when it will not work as it stands."""

    about: str
    message: str
    bad: bool = True


async def examine(sources: Sources) -> int:
    """Print a line for every hook and finding; 1 when anything will not work."""
    hooks = read_hooks(sources, partly=True)
    findings = [Finding(f"{problem.path}", str(problem)) for problem in hooks.loaded.problems]
    running = hooks.loaded.configuration.hooks()
    for hook in running:
        findings += await _examined(hook, hooks)
    for finding in findings:
        print(f"{'FAIL' if finding.bad else 'note'}  {finding.message}")
    bad = sum(finding.bad for finding in findings)
    print(f"{len(running)} hooks examined, {bad} {'finding' if bad == 1 else 'findings'} that need work.")
    return 1 if bad else 0


async def _examined(hook: Hook, hooks: Hooks) -> list[Finding]:
    about = f"{hook.event} hook {hook.name!r} ({hook.source})"
    if (reason := hooks.trust.refusal(hook)) is not None:
        return [Finding(about, f"{about} {reason}")]
    try:
        runners = make_runners([hook], http_targets=hooks.loaded.configuration.http_targets)
    except SettingsError as error:
        return [Finding(about, str(error))]
    try:
        running = Running(runners, FairQueue(1), lambda _: None)
        run = await running.run(hook, SAMPLES[hook.event], (), _SESSION, float("inf"))
    finally:
        await runners[hook].close()
    return _told(about, run)


def _told(about: str, run: Run) -> list[Finding]:
    if run.error:
        service = isinstance(run.hook.config, HttpConfig)
        remedy = "is the service up?" if service else "`hookgate hooks test` shows more"
        return [Finding(about, f"{about} {run.error}; {remedy}")]
    findings = []
    if run.seconds > SLOW:
        slow = f'{about} took {run.seconds * 1000:.0f} ms; with "persistent": true it would start only once'
        findings.append(Finding(about, slow, bad=False))
    if (run.output or {}).get("decision") == "deny":
        findings.append(Finding(about, f"{about} denies even a harmless event", bad=False))
    return findings
