"""Every status of an interaction in the newest SDK is known."""

from typing import get_args

from google.genai.interactions import InteractionStatus

from hookgate.translator.interactions.answer import finish_reason

RUNNING = {"in_progress", "queued"}


def test_each_status_is_that_of_an_interaction_that_runs_or_has_ended() -> None:
    statuses = set(get_args(get_args(InteractionStatus)[0]))
    assert {each for each in statuses if finish_reason(each) is None} == RUNNING
