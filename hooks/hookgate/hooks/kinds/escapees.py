"""The end of everything a hook's program started, also of what left its group, its session or its parent.

What stays in the program's process group dies with the group. An escapee (setsid, a double fork) is found in
one of two ways, and killed, until none is left:

- This process adopts orphans (`adopting_orphans`): what a dead parent leaves becomes a child of this
  process. A child that belongs to no living program is killed and reaped, whatever it did to its
  environment. One look reads the list of our own children.
- It does not: escapees are found by the mark in their environment, which whatever they start inherits, and
  init reaps them. One look reads the list of processes, and the environment of those that are younger.

Never touched: a process in this one's session (no hook's is ever in it: setsid only makes new sessions); a
child from before the adoption; what carries the mark of the adopting process or of a living program; and
without adoption, what does not carry the mark of the very program that ends.

Not guaranteed: the end of what a service starts at a hook's request (cron, systemd, docker), of a process of
another user, of one that takes on the adopting process's mark, of one that the kernel cannot end within
the second that is waited, and without adoption, of one that left the group and cleared its environment.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import time

from hookgate.hooks.kinds.marks import Kin, carriers, kill_carrier
from hookgate.hooks.kinds.orphans import household

_PATIENCE, _PAUSE = 1.0, 0.001  # seconds: until all is dead, and between two looks

log = logging.getLogger("hookgate.hooks")


def started(process: subprocess.Popen[bytes], kin: Kin) -> None:
    """Take in a program that was started in a session of its own with `kin.mark` in its environment."""
    household.living[process.pid] = kin


async def end_with_kin(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that was `started`, if it still runs, and all it left; reap what is ours to reap.

    What does not die within a second is told to the log. Who is cancelled meanwhile is so at the end. A
    second call does nothing.
    """
    kill_group(process)
    kin = household.living.pop(process.pid, None)
    if kin is None:
        return
    cancelled: asyncio.CancelledError | None = None
    deadline = time.monotonic() + _PATIENCE
    while left := _kill_left(process, kin):
        if time.monotonic() > deadline:
            _give_up(left)
            break
        try:
            await asyncio.sleep(_PAUSE)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and what stayed in its group. Until it is reaped, the group's number is its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _kill_left(process: subprocess.Popen[bytes], kin: Kin) -> set[int]:
    """One look at what is left of a program, the program itself included; whatever is found is killed."""
    if process.poll() is None:  # its end orphans its children, so look for them after it
        return {process.pid}
    if household.own:
        return household.kill_strangers(household.own)
    found = carriers(process.pid, kin)
    for pid in found:
        kill_carrier(pid, kin)
    return found


def _give_up(left: set[int]) -> None:
    if household.own:
        household.given_up |= left
    log.warning("A hook's processes cannot be ended: %s", ", ".join(map(str, sorted(left))))
