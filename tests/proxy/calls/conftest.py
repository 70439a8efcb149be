"""What tests of calls observe inside a gateway."""

from collections.abc import Callable
from typing import Any

import pytest

from hookgate.proxy.server.bodies import BodyWorker
from hookgate.proxy.server.shared_threads import QueueKey


@pytest.fixture
def steps_in_threads(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., Any]]:
    """The steps that calls have run in threads so far."""
    run_in_thread, steps = BodyWorker.run_in_thread, list[Callable[..., Any]]()

    async def noted(
        worker: BodyWorker, queue_key: QueueKey, work: int, step: Callable[..., Any], *args: Any
    ) -> Any:
        steps.append(step)
        return await run_in_thread(worker, queue_key, work, step, *args)

    monkeypatch.setattr(BodyWorker, "run_in_thread", noted)
    return steps
