"""The memory of one simulated engine: allocations by program, and the limits that MPS sets for each program."""

from __future__ import annotations

_MIB = 1 << 20


class OutOfMemory(Exception):
    """An allocation was refused; the text contains the requested size, the memory in use, and the limit that
    applies.
    """


class DeviceMemory:
    """The memory of one engine, by program. Sizes are in bytes."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._name = name
        self._allocations: dict[str, dict[int, int]] = {}
        self._last_number = 0

    @property
    def used(self) -> int:
        """Bytes that all programs have allocated."""
        return sum(map(self.used_by, self._allocations))

    def used_by(self, program: str) -> int:
        """Bytes that one program has allocated."""
        return sum(self._allocations.get(program, {}).values())

    def allocate(self, program: str, size: int, limit: int | None = None) -> int:
        """Allocate memory for a program; returns the number with which to free it. ``limit``: of the program's total.

        Raises OutOfMemory, and ValueError for a size below 1; nothing is allocated then.
        """
        if size < 1:
            raise ValueError(f"cannot allocate {size} bytes")
        own, used = self.used_by(program), self.used
        if limit is not None and own + size > limit:
            bound = f"MPS limits this program to {_mib(limit)}, of which {_mib(own)} are in use"
            raise OutOfMemory(f"out of memory: tried to allocate {_mib(size)}; {bound}")
        if used + size > self.size:
            bound = f"{self._name} has {_mib(self.size)}, of which {_mib(used)} are in use"
            raise OutOfMemory(f"out of memory: tried to allocate {_mib(size)}; {bound}")
        self._last_number += 1
        self._allocations.setdefault(program, {})[self._last_number] = size
        return self._last_number

    def free(self, program: str, number: int) -> None:
        """Free an allocation. Raises KeyError if the program does not have it."""
        del self._allocations.get(program, {})[number]

    def leave(self, program: str) -> None:
        """Free all memory of a program that ended."""
        self._allocations.pop(program, None)


def _mib(size: int) -> str:
    return f"{size / _MIB:.10g} MiB" if size % _MIB == 0 else f"{size / _MIB:.1f} MiB"
