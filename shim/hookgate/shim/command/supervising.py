"""A program in the foreground, as if nothing stood between it and who started it.

It stays in the same process group: what a terminal sends (Ctrl-C, Ctrl-Z, a new window size) reaches it
without help. What someone sends to this process alone is passed on.
"""

import os
import signal
from collections.abc import Mapping, Sequence

_PASSED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGTSTP,
    signal.SIGCONT,
}

_WATCHED = {*_PASSED, signal.SIGCHLD}

_FROM_KERNEL = 0x80
"""SI_KERNEL: the sender was a terminal, which sends to the whole process group."""


def supervised(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program to its end; its exit code, as a shell has it. Raises OSError when it does not start.

    Signals stay blocked afterwards, so that who ends the program does not end what is done after it.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    pid = os.posix_spawnp(
        command[0],
        list(command),
        environment,
        setsigmask=blocked,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them
    )
    while (code := _next(pid)) is None:
        pass
    return code


def _next(pid: int) -> int | None:
    """Wait for one signal and do what it asks for; the exit code once the program has ended."""
    received = signal.sigwaitinfo(_WATCHED)
    if received.si_signo != signal.SIGCHLD:
        if received.si_code != _FROM_KERNEL:
            os.kill(pid, received.si_signo)
        return None
    ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if not ended:
        return None
    if os.WIFSTOPPED(status):
        # The shell sees a stopped job only when this process stands still as well. Its `fg` wakes both.
        os.kill(os.getpid(), signal.SIGSTOP)
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
