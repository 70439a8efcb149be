"""The same synchronously, step by step, with hooks of a settings file in the agent's own process.

python examples/shim_sync.py settings.json README.md
"""

import sys
from pathlib import Path

from hookgate.hooks import Engine, load_settings
from hookgate.shim import Question, Shim, ToolDenied


def ask(question: Question) -> bool:
    return input(f"{question.tool_name} {question.args}: {question.reason} [y/n] ") == "y"


def main(settings: str, file: str) -> None:
    engine = Engine(load_settings([Path(settings)]))
    with Shim(engine, ask=ask) as shim, shim.sync_session(source="startup") as session:
        print("context:", session.context)
        with session.turn(f"Read {file}.") as turn:
            print("context of the turn:", turn.context)
            try:
                with session.tool("read_file", {"file_path": file}) as call:
                    seen = call.result(Path(call.args["file_path"]).read_text())
            except ToolDenied as denied:
                seen = str(denied)
            decision = turn.answer(seen)
        print(f"{decision.decision}: {seen}")


if __name__ == "__main__":
    main(*sys.argv[1:])
