"""The memory of one simulated engine: what programs have of it, and the limits that MPS sets for each."""

from __future__ import annotations

_MIB = 1 << 20


class OutOfMemory(Exception):
    """An allocation was refused; the text says what was wanted, what is in use, and whose limit it is."""


class DeviceMemory:
    """The memory of one engine, by program. Sizes are in bytes."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._name = name
        self._allocations: dict[str, dict[int, int]] = {}
        self._last_number = 0

    @property
    def used(self) -> int:
        """What all programs hold together."""
        return sum(map(self.used_by, self._allocations))

    def used_by(self, program: str) -> int:
        """What one program holds."""
        return sum(self._allocations.get(program, {}).values())

    def allocate(self, program: str, size: int, limit: int | None = None) -> int:
        """Give a program so much, and a number to free it by. ``limit``: all that this program may hold.

        Raises OutOfMemory, and then nothing was given; ValueError for a size below 1.
        """
        if size < 1:
            raise ValueError(f"cannot allocate {size} bytes")
        own, used = self.used_by(program), self.used
        if limit is not None and own + size > limit:
            bound = f"MPS limits this program to {_mib(limit)}, of which it holds {_mib(own)}"
            raise OutOfMemory(f"out of memory: tried to allocate {_mib(size)}; {bound}")
        if used + size > self.size:
            bound = f"{self._name} has {_mib(self.size)}, of which {_mib(used)} are in use"
            raise OutOfMemory(f"out of memory: tried to allocate {_mib(size)}; {bound}")
        self._last_number += 1
        self._allocations.setdefault(program, {})[self._last_number] = size
        return self._last_number

    def free(self, program: str, number: int) -> None:
        """Take an allocation back. Raises KeyError if the program does not hold it."""
        del self._allocations.get(program, {})[number]

    def leave(self, program: str) -> None:
        """A program ended; all that it held is free."""
        self._allocations.pop(program, None)


def _mib(size: int) -> str:
    return f"{size / _MIB:.10g} MiB" if size % _MIB == 0 else f"{size / _MIB:.1f} MiB"
