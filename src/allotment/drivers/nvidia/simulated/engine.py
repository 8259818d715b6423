"""An engine of a simulated GPU (the whole GPU or a MIG device), which runs programs in real time."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from allotment.drivers.nvidia.simulated.device_memory import DeviceMemory
from allotment.drivers.nvidia.simulated.multiprocessors import SECOND, SLICES, Multiprocessors
from allotment.drivers.nvidia.simulated.share import ComputeShare

#: The maximum work of a kernel, in nanoseconds of one multiprocessor: one year.
_LONGEST: Final = 365 * 86_400 * SECOND


class ComputeError(Exception):
    """An error of the CUDA API. ``code``: CUDA's name of the error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Activity(NamedTuple):
    """The activity of an engine since its first program. ``busy``: the used fraction of its multiprocessors' time."""

    programs: int
    seconds: float
    busy: float
    memory_used: int


class ComputeEngine:
    """One engine in real time: the model of its multiprocessors, advanced at every call and timer."""

    def __init__(self, share: ComputeShare, speed: float) -> None:
        self.uuid = share.engine
        self.memory = DeviceMemory(share.memory, share.product if not share.profile else f"MIG {share.profile}")
        self._model = Multiprocessors(share.multiprocessors, slice_ns=SLICES[share.interval])
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._start_time = self._loop.time()
        self._running: dict[int, tuple[str, asyncio.Future[float]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def programs(self) -> int:
        """The number of programs."""
        return self._model.programs

    def activity(self) -> Activity:
        """The activity until now."""
        self._advance()
        time = max(self._model.now, 1)
        busy = self._model.used / (time * self._model.count)
        return Activity(self.programs, time / SECOND, busy, self.memory.used)

    def enter(self, program: str, group: str, threads: int | None) -> None:
        """Add a program; programs with the same ``group`` (an MPS daemon's key) run concurrently."""
        self._advance()
        self._model.enter(program, group, threads)

    def leave(self, program: str) -> None:
        """Remove a program: its kernels are cancelled, its memory is freed."""
        self._advance()
        self._model.leave(program)
        self.memory.leave(program)
        for number in [number for number, (owner, _) in self._running.items() if owner == program]:
            self._running.pop(number)[1].cancel()
        self._set_timer()

    async def run(self, program: str, work: int, width: int, interval: int) -> float:
        """Run a kernel of ``work`` nanoseconds of one multiprocessor; returns simulated seconds. Raises
        ComputeError.
        """
        self._advance()
        self._model.slice_ns = SLICES[interval]
        if work > _LONGEST:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", f"a kernel cannot run for {work / SECOND:.0f} seconds")
        try:
            number = self._model.launch(program, work, width)
        except ValueError as error:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", str(error)) from None
        ended: asyncio.Future[float] = self._loop.create_future()
        self._running[number] = program, ended
        self._set_timer()
        return await ended

    def _advance(self) -> None:
        now = int((self._loop.time() - self._start_time) * self._speed * SECOND)
        for finished in self._model.advance(now):
            _, ended = self._running.pop(finished.kernel)
            if not ended.done():
                ended.set_result((finished.ended - finished.launched) / SECOND)

    def _on_timer(self) -> None:
        self._advance()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        end = self._model.next_end()
        if end is not None:
            # One nanosecond later, so that rounding does not wake it too early.
            self._timer = self._loop.call_at(self._start_time + (end + 1) / (self._speed * SECOND), self._on_timer)
