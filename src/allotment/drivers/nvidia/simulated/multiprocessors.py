"""A deterministic model of how programs share the multiprocessors of one engine (a GPU or a MIG device) over time.

Programs that can run at the same time form a *group*: a single program, or all clients of one MPS daemon. Groups are
time-sliced; the active group has all multiprocessors, and those that it does not use stay idle. Within a group,
programs run concurrently, each on as many multiprocessors as its kernel is wide and its limit allows; if the total
exceeds the engine, the multiprocessors are divided by max-min fairness. A MIG device is a separate engine.

Time is in nanoseconds and work in nanoseconds of one multiprocessor, both integers, so sums are exact and the same
calls give the same times. Not modeled: memory bandwidth and caches, which MPS clients and time slices share and which
can slow programs down, and concurrent kernels of one program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000

#: Length of a time slice by interval: default, short, medium, long. NVIDIA does not publish lengths; these are in the
#: range of published measurements, and far enough apart to be distinguished.
SLICES: Final = (2 * _MILLISECOND, _MILLISECOND, 5 * _MILLISECOND, 20 * _MILLISECOND)

#: Duration of a context switch, during which no kernel runs.
SWITCH: Final = 200_000


class Finished(NamedTuple):
    """A kernel that ended. Times in nanoseconds."""

    kernel: int
    program: str
    launched: int
    ended: int


class Span(NamedTuple):
    """A time span without changes. ``allocation``: multiprocessors by program; empty during a context switch."""

    begin: int
    end: int
    allocation: Mapping[str, int]


@dataclass(slots=True)
class _Kernel:
    number: int
    launched: int
    remaining: int
    width: int


@dataclass(slots=True)
class _Program:
    group: str
    limit: int
    kernels: deque[_Kernel] = field(default_factory=deque)


class Multiprocessors:
    """The multiprocessors of one engine. Calls must be in order of time: :meth:`advance`, then the change."""

    def __init__(
        self,
        count: int,
        *,
        slice_ns: int = SLICES[0],
        switch_ns: int = SWITCH,
        on_span: Callable[[Span], None] | None = None,
    ) -> None:
        self.count = count
        self.slice_ns = slice_ns
        self.now = 0
        self.used = 0
        """Work done so far, in nanoseconds of one multiprocessor."""
        self._switch_ns = switch_ns
        self._on_span = on_span
        self._programs: dict[str, _Program] = {}
        self._groups: dict[str, list[str]] = {}
        self._launched = 0
        self._active: str | None = None
        self._loaded: str | None = None
        self._ready = 0
        self._slice_end: int | None = None

    # --- programs ----------------------------------------------------------------------------------------------------

    @property
    def programs(self) -> int:
        """The number of programs, idle ones included."""
        return len(self._programs)

    def enter(self, program: str, group: str, threads: int | None = None) -> None:
        """Add a program. ``threads``: percentage of the multiprocessors that it can use, rounded up to a whole one."""
        limit = self.count if threads is None else max(1, -(-self.count * threads // 100))
        self._programs[program] = _Program(group, limit)
        self._groups.setdefault(group, []).append(program)

    def leave(self, program: str) -> None:
        """Remove a program; its kernels are cancelled."""
        group = self._programs.pop(program).group
        self._groups[group].remove(program)
        self._schedule()
        if not self._groups[group]:
            del self._groups[group]

    def launch(self, program: str, work: int, width: int) -> int:
        """Queue a kernel of ``work`` that can use at most ``width`` multiprocessors; returns its number."""
        if work < 1 or width < 1:
            raise ValueError(f"expected work >= 1 and width >= 1, found {work} and {width}")
        self._launched += 1
        self._programs[program].kernels.append(_Kernel(self._launched, self.now, work, width))
        self._schedule()
        return self._launched

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, until: int) -> list[Finished]:
        """Advance the time; returns the kernels that ended."""
        finished: list[Finished] = []
        while self.now < until:
            self._skip_rounds(until)
            allocation = self._current_allocation()
            self._run_until(min(self._next_change(allocation), until), allocation)
            finished += self._take_ended()
            self._schedule()
        return finished

    def _skip_rounds(self, until: int) -> None:
        """Skip whole scheduling rounds in which no kernel ends: each group has one slice in each round.

        Groups with long kernels switch hundreds of times a second; simulating every switch of an hour would be too
        slow.
        """
        slice_left = 0 if self._slice_end is None else self._slice_end - self.now
        if self._on_span is not None or not 0 < slice_left <= self.slice_ns or self.now < self._ready:
            return
        turn_ns = self.slice_ns + self._switch_ns
        if until - self.now < 2 * turn_ns * len(self._groups):
            return
        groups = [group for group in self._groups if self._has_work(group)]
        rounds = (until - self.now) // (turn_ns * len(groups))
        rounds = min(rounds, *((self._time_to_first_end(group) - 1) // self.slice_ns for group in groups))
        for group in groups:
            for name, count in self._allocation_of(group).items():
                done = count * self.slice_ns * rounds
                self._programs[name].kernels[0].remaining -= done
                self.used += done
        passed = rounds * turn_ns * len(groups)
        self.now += passed
        self._slice_end = self.now + slice_left

    def next_end(self) -> int | None:
        """The time when the next kernel ends if no kernel is launched and no program leaves; None if none runs."""
        if self._active is None:
            return None
        begin = max(self.now, self._ready)
        if self._slice_end is None:
            return begin + self._time_to_first_end(self._active)
        groups = [group for group in self._in_order(self._active) if self._has_work(group)]
        # Until a kernel ends every group uses its whole slice, so each slice starts at a fixed offset in a fixed cycle.
        turn_ns = self.slice_ns + self._switch_ns
        cycle = turn_ns * len(groups)
        slice_left = self._slice_end - begin
        remaining = self._time_to_first_end(self._active)
        ends = [
            begin + remaining
            if remaining <= slice_left
            else self._slice_end
            + _completion_delay(remaining - slice_left, cycle - turn_ns, self.slice_ns, cycle, self._switch_ns)
        ]
        for position, group in enumerate(groups[1:]):
            ends.append(
                self._slice_end
                + _completion_delay(
                    self._time_to_first_end(group), position * turn_ns, self.slice_ns, cycle, self._switch_ns
                )
            )
        return min(ends)

    def _time_to_first_end(self, group: str) -> int:
        """The active time that a group needs until the first of its kernels ends."""
        allocation = self._allocation_of(group)
        return min(-(-self._programs[name].kernels[0].remaining // count) for name, count in allocation.items())

    def _run_until(self, until: int, allocation: Mapping[str, int]) -> None:
        for name, count in allocation.items():
            kernel = self._programs[name].kernels[0]
            done = min(kernel.remaining, count * (until - self.now))
            kernel.remaining -= done
            self.used += done
        if self._on_span is not None:
            self._on_span(Span(self.now, until, allocation))
        self.now = until

    def _take_ended(self) -> list[Finished]:
        ended = []
        for name in self._groups.get(self._active or "", ()):
            kernels = self._programs[name].kernels
            if kernels and not kernels[0].remaining:
                kernel = kernels.popleft()
                ended.append(Finished(kernel.number, name, kernel.launched, self.now))
        return ended

    # --- scheduling --------------------------------------------------------------------------------------------------

    def _is_busy(self, program: str) -> bool:
        return bool(self._programs[program].kernels)

    def _has_work(self, group: str) -> bool:
        return any(self._is_busy(program) for program in self._groups[group])

    def _schedule(self) -> None:
        """Choose the active group, and set the end of its slice."""
        waiting = any(group != self._active and self._has_work(group) for group in self._groups)
        expired = self._slice_end is not None and self.now >= self._slice_end
        if self._active is None or not self._has_work(self._active) or (waiting and expired):
            self._switch_group()
            waiting = any(group != self._active and self._has_work(group) for group in self._groups)
        if self._active is None or not waiting:
            self._slice_end = None  # no other group is waiting
        elif self._slice_end is None:
            self._slice_end = max(self.now, self._ready) + self.slice_ns

    def _switch_group(self) -> None:
        """Activate the next group that has work."""
        order = self._in_order(self._active)
        self._active = next((group for group in (*order[1:], *order[:1]) if self._has_work(group)), None)
        self._slice_end = None
        if self._active is not None and self._active != self._loaded:
            self._ready = self.now + (self._switch_ns if self._loaded is not None else 0)
            self._loaded = self._active

    def _in_order(self, first: str | None) -> list[str]:
        """All groups in round-robin order, starting with ``first``."""
        groups = list(self._groups)
        position = groups.index(first) if first is not None else 0
        return groups[position:] + groups[:position]

    def _current_allocation(self) -> dict[str, int]:
        """The multiprocessors that each program has now."""
        return {} if self._active is None or self.now < self._ready else self._allocation_of(self._active)

    def _allocation_of(self, group: str) -> dict[str, int]:
        """The multiprocessors that the programs of a group have while it is active."""
        names = [name for name in self._groups[group] if self._is_busy(name)]
        heads = [(self._programs[name].kernels[0], self._programs[name].limit) for name in names]
        demands = [min(kernel.width, limit) for kernel, limit in heads]
        # The kernel that was launched first gets the remainder, so that no program starves.
        order = sorted(range(len(names)), key=lambda index: (demands[index], heads[index][0].number))
        shares = max_min_fair([demands[index] for index in order], self.count)
        return {names[index]: share for index, share in zip(order, shares, strict=True) if share}

    def _next_change(self, allocation: Mapping[str, int]) -> int:
        """The end of the current context switch, of the first kernel or of the slice."""
        changes = [self._slice_end] if self._slice_end is not None else []
        if self._active is not None and self.now < self._ready:
            changes.append(self._ready)
        changes += [
            self.now - (-self._programs[name].kernels[0].remaining // count) for name, count in allocation.items()
        ]
        return min(changes, default=_NEVER)


_NEVER: Final = 1 << 62


def _completion_delay(required: int, wait: int, slice_ns: int, cycle: int, switch_ns: int) -> int:
    """The time to get ``required`` active time: one slice per cycle, the first after ``wait`` and a context switch.

    >>> _completion_delay(required=25, wait=0, slice_ns=10, cycle=22, switch_ns=1)
    50
    """
    whole = (required - 1) // slice_ns
    return wait + switch_ns + whole * cycle + required - whole * slice_ns


def max_min_fair(demands: Sequence[int], count: int) -> list[int]:
    """Divide ``count`` among demands in ascending order by max-min fairness: each gets its demand or an equal share.

    >>> max_min_fair([10, 32, 32], 108)
    [10, 32, 32]
    >>> max_min_fair([10, 60, 60], 108)
    [10, 49, 49]
    >>> max_min_fair([4, 4, 4], 2)
    [1, 1, 0]
    """
    shares = []
    for position, demand in enumerate(demands):
        fair_share = -(-count // (len(demands) - position))
        shares.append(min(demand, fair_share))
        count -= shares[-1]
    return shares
