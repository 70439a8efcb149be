"""Marks of changes, in memory that processes of one machine share. What is not marked need not be read."""

import mmap
import os
import random
import zlib
from pathlib import Path

_NUMBERS = 1 << 14
_BYTES = 8


class ChangeMarks:
    """A number for each name, which changes when the name is marked. Names may share a number.

    A reader gets the number before it reads, and may use the result for as long as the number is the
    same. A writer marks a name before it commits a change and after it. Numbers are random, because two
    processes could count up to the same one.
    """

    def __init__(self, path: Path) -> None:
        """Map the file, which only its owner can read, and mark all names. Raises OSError.

        A process that died may have committed a change without marking it again.
        """
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(file, _NUMBERS * _BYTES)
            self._memory = mmap.mmap(file, _NUMBERS * _BYTES)
        finally:
            os.close(file)
        self._numbers = memoryview(self._memory).cast("Q")
        for index in range(_NUMBERS):
            self._numbers[index] = random.getrandbits(64)  # not a secret

    def number(self, name: str) -> int:
        """Return the current number of a name."""
        return self._numbers[_index(name)]

    def mark(self, name: str) -> None:
        """Change the number of a name."""
        self._numbers[_index(name)] = random.getrandbits(64)  # not a secret

    def close(self) -> None:
        """Unmap the file."""
        self._numbers.release()
        self._memory.close()


def _index(name: str) -> int:
    return zlib.crc32(name.encode(errors="surrogatepass")) % _NUMBERS
