"""Recorded answers: a folder with one JSON file for each request."""

import json
from datetime import UTC, datetime
from pathlib import Path

from hookgate.hooks.managing.edits import write_atomically
from hookgate.translator.fields import JsonObject


class Tape:
    """The answers in one folder, by the keys of their requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> JsonObject | None:
        """The answer to a request, as a REST body; None when there is none.

        Raises OSError, and ValueError for a file that is no recording.
        """
        path = self._path(key)
        try:
            recording = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{path}: is not JSON: {error}; repair or remove it") from None
        answer = recording.get("answer") if isinstance(recording, dict) else None
        if not isinstance(answer, dict):
            raise ValueError(f"{path}: has to hold an object `answer`; repair or remove it")
        return answer

    def write(self, key: str, request: JsonObject, answer: JsonObject) -> None:
        """Record an answer in place of an older one; `request` is told to people. Raises OSError."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        recording = {"key": key, "recorded": now, "request": request, "answer": answer}
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps(recording, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self._path(key), text, mode=0o600)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
