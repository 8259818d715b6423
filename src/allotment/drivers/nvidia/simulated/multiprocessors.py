"""How programs share the multiprocessors of one engine (a GPU or a MIG device) over time: a pure, exact model.

Whoever may run at the same time sits on one *seat*: a program by itself, or all clients of one MPS daemon. Seats take
turns; the one whose turn it is has all multiprocessors, and what it does not use stays idle. On a seat, programs run
side by side, each on as many multiprocessors as its kernel is wide and its limit allows; if that is more than there
are, they get equal parts. A MIG device is an engine of its own, so nobody outside it appears here.

Time is in nanoseconds and work in nanoseconds of one multiprocessor, both whole numbers: sums are exact, and the same
calls give the same times. What the model leaves out: memory bandwidth and caches, which MPS clients and time slices
share and which can slow neighbours down, and kernels of one program that overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000

#: Length of a time slice by interval: default, short, medium, long. NVIDIA does not publish lengths; these are in the
#: range that people have measured, and far enough apart to be told from each other.
SLICES: Final = (2 * _MILLISECOND, _MILLISECOND, 5 * _MILLISECOND, 20 * _MILLISECOND)

#: Saving one program's state and loading another's; nothing runs meanwhile.
SWITCH: Final = 200_000


class Finished(NamedTuple):
    """A kernel that ended. Times in nanoseconds."""

    kernel: int
    program: str
    launched: int
    ended: int


class Span(NamedTuple):
    """A time in which nothing changed: how many multiprocessors each program had. Empty while switching."""

    begin: int
    end: int
    allocation: Mapping[str, int]


@dataclass(slots=True)
class _Kernel:
    number: int
    launched: int
    rest: int
    width: int


@dataclass(slots=True)
class _Program:
    seat: str
    limit: int
    kernels: deque[_Kernel] = field(default_factory=deque)


class Multiprocessors:
    """The multiprocessors of one engine. Calls must come in the order of time: :meth:`advance`, then what happens."""

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
        self._seen = on_span
        self._programs: dict[str, _Program] = {}
        self._seats: dict[str, list[str]] = {}
        self._launched = 0
        self._turn: str | None = None
        self._loaded: str | None = None
        self._ready = 0
        self._slice_end: int | None = None

    # --- who is there ------------------------------------------------------------------------------------------------

    @property
    def programs(self) -> int:
        """How many programs there are, whether they do something or not."""
        return len(self._programs)

    def enter(self, program: str, group: str, threads: int | None = None) -> None:
        """Let a program in. ``threads``: per cent of the multiprocessors that it may use, rounded up to a whole one."""
        limit = self.count if threads is None else max(1, -(-self.count * threads // 100))
        self._programs[program] = _Program(group, limit)
        self._seats.setdefault(group, []).append(program)

    def leave(self, program: str) -> None:
        """A program ended; what it had launched is lost."""
        seat = self._programs.pop(program).seat
        self._seats[seat].remove(program)
        self._choose()
        if not self._seats[seat]:
            del self._seats[seat]

    def launch(self, program: str, work: int, width: int) -> int:
        """Queue a kernel of ``work`` that can use ``width`` multiprocessors at most; its number."""
        if work < 1 or width < 1:
            raise ValueError(f"a kernel has work and width of at least 1, not {work} and {width}")
        self._launched += 1
        self._programs[program].kernels.append(_Kernel(self._launched, self.now, work, width))
        self._choose()
        return self._launched

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, until: int) -> list[Finished]:
        """Let time pass, and tell which kernels ended in it."""
        finished: list[Finished] = []
        while self.now < until:
            self._skip(until)
            given = self._given()
            self._pass(min(self._next_change(given), until), given)
            finished += self._ended()
            self._choose()
        return finished

    def _skip(self, until: int) -> None:
        """Let whole rounds of turns pass at once, as long as no kernel ends in them: each seat has one slice of each.

        Long kernels in turns change hands hundreds of times a second; nobody could go through an hour of that.
        """
        left = 0 if self._slice_end is None else self._slice_end - self.now
        if self._seen is not None or not 0 < left <= self.slice_ns or self.now < self._ready:
            return
        turn = self.slice_ns + self._switch_ns
        if until - self.now < 2 * turn * len(self._seats):
            return
        seats = [seat for seat in self._seats if self._works(seat)]
        rounds = (until - self.now) // (turn * len(seats))
        rounds = min(rounds, *((self._needs(seat) - 1) // self.slice_ns for seat in seats))
        for seat in seats:
            for name, count in self._parts(seat).items():
                done = count * self.slice_ns * rounds
                self._programs[name].kernels[0].rest -= done
                self.used += done
        passed = rounds * turn * len(seats)
        self.now += passed
        self._slice_end = self.now + left

    def next_end(self) -> int | None:
        """When the next kernel ends if nothing else is launched and nobody leaves; None if none runs."""
        if self._turn is None:
            return None
        begin = max(self.now, self._ready)
        if self._slice_end is None:
            return begin + self._needs(self._turn)
        turns = [seat for seat in self._in_order(self._turn) if self._works(seat)]
        # Until a kernel ends every seat uses its whole slice, so each begins at a fixed place of a fixed cycle.
        turn = self.slice_ns + self._switch_ns
        cycle = turn * len(turns)
        first = self._slice_end - begin
        needs = self._needs(self._turn)
        ends = [
            begin + needs
            if needs <= first
            else self._slice_end + _in_turns(needs - first, cycle - turn, self.slice_ns, cycle, self._switch_ns)
        ]
        for place, seat in enumerate(turns[1:]):
            ends.append(
                self._slice_end + _in_turns(self._needs(seat), place * turn, self.slice_ns, cycle, self._switch_ns)
            )
        return min(ends)

    def _needs(self, seat: str) -> int:
        """How long a seat has to have its turn until the first of its kernels ends."""
        parts = self._parts(seat)
        return min(-(-self._programs[name].kernels[0].rest // count) for name, count in parts.items())

    def _pass(self, until: int, given: Mapping[str, int]) -> None:
        for name, count in given.items():
            kernel = self._programs[name].kernels[0]
            done = min(kernel.rest, count * (until - self.now))
            kernel.rest -= done
            self.used += done
        if self._seen is not None:
            self._seen(Span(self.now, until, given))
        self.now = until

    def _ended(self) -> list[Finished]:
        ended = []
        for name in self._seats.get(self._turn or "", ()):
            kernels = self._programs[name].kernels
            if kernels and not kernels[0].rest:
                kernel = kernels.popleft()
                ended.append(Finished(kernel.number, name, kernel.launched, self.now))
        return ended

    # --- whose turn --------------------------------------------------------------------------------------------------

    def _busy(self, program: str) -> bool:
        return bool(self._programs[program].kernels)

    def _works(self, seat: str) -> bool:
        return any(self._busy(program) for program in self._seats[seat])

    def _choose(self) -> None:
        """See whose turn it is now, and until when."""
        waiting = any(seat != self._turn and self._works(seat) for seat in self._seats)
        over = self._slice_end is not None and self.now >= self._slice_end
        if self._turn is None or not self._works(self._turn) or (waiting and over):
            self._pass_on()
            waiting = any(seat != self._turn and self._works(seat) for seat in self._seats)
        if self._turn is None or not waiting:
            self._slice_end = None  # alone: there is nobody to make room for
        elif self._slice_end is None:
            self._slice_end = max(self.now, self._ready) + self.slice_ns

    def _pass_on(self) -> None:
        """Give the turn to the next seat that has something to do."""
        order = self._in_order(self._turn)
        self._turn = next((seat for seat in (*order[1:], *order[:1]) if self._works(seat)), None)
        self._slice_end = None
        if self._turn is not None and self._turn != self._loaded:
            self._ready = self.now + (self._switch_ns if self._loaded is not None else 0)
            self._loaded = self._turn

    def _in_order(self, first: str | None) -> list[str]:
        """All seats in the order of their turns, from one of them on."""
        seats = list(self._seats)
        place = seats.index(first) if first is not None else 0
        return seats[place:] + seats[:place]

    def _given(self) -> dict[str, int]:
        """How many multiprocessors each program has now."""
        return {} if self._turn is None or self.now < self._ready else self._parts(self._turn)

    def _parts(self, seat: str) -> dict[str, int]:
        """How many multiprocessors the programs of a seat have when it is their turn."""
        names = [name for name in self._seats[seat] if self._busy(name)]
        heads = [(self._programs[name].kernels[0], self._programs[name].limit) for name in names]
        wanted = [min(kernel.width, limit) for kernel, limit in heads]
        # Whoever launched first gets what cannot be divided: nobody waits for ever.
        order = sorted(range(len(names)), key=lambda index: (wanted[index], heads[index][0].number))
        parts = max_min_fair([wanted[index] for index in order], self.count)
        return {names[index]: part for index, part in zip(order, parts, strict=True) if part}

    def _next_change(self, given: Mapping[str, int]) -> int:
        """When what runs now changes by itself: the end of a switch, of a kernel or of a slice."""
        changes = [self._slice_end] if self._slice_end is not None else []
        if self._turn is not None and self.now < self._ready:
            changes.append(self._ready)
        changes += [self.now - (-self._programs[name].kernels[0].rest // count) for name, count in given.items()]
        return min(changes, default=_NEVER)


_NEVER: Final = 1 << 62


def _in_turns(needs: int, wait: int, slice_ns: int, cycle: int, switch_ns: int) -> int:
    """How long it takes to get ``needs`` of time in slices, the first after ``wait`` and a switch, one in a cycle.

    >>> _in_turns(needs=25, wait=0, slice_ns=10, cycle=22, switch_ns=1)
    50
    """
    whole = (needs - 1) // slice_ns
    return wait + switch_ns + whole * cycle + needs - whole * slice_ns


def max_min_fair(wanted: Sequence[int], count: int) -> list[int]:
    """Divide ``count`` among those who want so much, smallest wish first: all wishes if that can be, else equal parts.

    >>> fair_parts([10, 32, 32], 108)
    [10, 32, 32]
    >>> fair_parts([10, 60, 60], 108)
    [10, 49, 49]
    >>> fair_parts([4, 4, 4], 2)
    [1, 1, 0]
    """
    parts = []
    for place, wish in enumerate(wanted):
        fair = -(-count // (len(wanted) - place))
        parts.append(min(wish, fair))
        count -= parts[-1]
    return parts
