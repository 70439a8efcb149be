"""The SDK's own dispatcher of hooks with the shim's hooks, at the gateway whose URL is the only word.

It dispatches a compaction, which the harness makes of long conversations only, and a question of the agent.
support/environments.py runs it.
"""

from google.antigravity import types
from google.antigravity.hooks.hook_runner import HookRunner
from google.antigravity.hooks.hooks import TurnContext

from hookgate.shim.antigravity import HookgateHooks


async def main(url: str) -> None:
    runner = HookRunner(hooks=HookgateHooks(url, "any", "s-1").hooks)
    turn = TurnContext(runner.session_context)
    colors = [
        types.AskQuestionOption(id=str(number), text=text) for number, text in enumerate(("red", "blue"))
    ]
    question = types.AskQuestionEntry(question="Which color?", options=colors)
    await runner.dispatch_session_start()
    await runner.dispatch_compaction(turn, types.Step(type=types.StepType.COMPACTION))
    result, _, _ = await runner.dispatch_interaction(
        turn, types.AskQuestionInteractionSpec(questions=[question])
    )
    assert not result.allow  # nothing has answered it
    await runner.dispatch_session_end()
