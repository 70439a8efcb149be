"""Frames of a stream that are joined before they are judged, such as those of one function call."""

import orjson

from hookgate.translator.fields import BodyError, JsonObject
from hookgate.translator.streaming.framing import MAX_EVENT, Frame


class JoinedFrames:
    """Frames that are held until they can be judged together, as one frame with a list of their objects."""

    def __init__(self, field: str) -> None:
        """`field` is the name of the list in the joined object."""
        self._head = f'{{"{field}":['.encode()
        self.clear()

    def clear(self) -> None:
        """Discard what is held."""
        self._frames: list[Frame] = []
        self._size = 0

    def add(self, frame: Frame) -> None:
        """Hold a frame. Raises BodyError if the frames that are held become too large."""
        self._frames.append(frame)
        self._size += len(frame.raw)
        if self._size > MAX_EVENT:
            raise BodyError("", f"one of its function calls is larger than {MAX_EVENT} bytes")

    def release(self) -> list[Frame]:
        """Return the frames that were held, joined if there are several."""
        frames = self._frames
        self.clear()
        if len(frames) < 2:
            return frames
        data = b",".join(frame.data for frame in frames if frame.data)
        return [Frame(b"".join(frame.raw for frame in frames), self._head + data + b"]}")]


def read_frame(data: bytes) -> JsonObject:
    """Return the JSON object in a frame's data, or an empty one if there is none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
