import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.nvidia.simulated.multiprocessors import (
    SECOND,
    SLICES,
    SWITCH,
    Multiprocessors,
    Span,
    max_min_fair,
)

MS = 1_000_000


class Launch(NamedTuple):
    """What a program does: after a pause it launches a kernel."""

    program: int
    pause: int
    work: int
    width: int


launches = st.builds(Launch, st.integers(0, 4), st.integers(0, 5 * MS), st.integers(1, 400 * MS), st.integers(1, 130))
#: The seat of each of five programs, and its limit.
seatings = st.tuples(*[st.tuples(st.sampled_from("abc"), st.none() | st.integers(1, 100)) for _ in range(5)])
sizes = st.integers(1, 108)


def played(
    count: int, seating: Sequence[tuple[str, int | None]], story: Sequence[Launch]
) -> tuple[Multiprocessors, list[Span], dict[int, int], set[int]]:
    """Play a story to its end: the spans seen, the work of each kernel, and the kernels that ended."""
    spans: list[Span] = []
    model = Multiprocessors(count, on_span=spans.append)
    for number, (seat, threads) in enumerate(seating):
        model.enter(str(number), seat, threads)
    work, ended = {}, set()
    for launch in story:
        ended |= {finished.kernel for finished in model.advance(model.now + launch.pause)}
        work[model.launch(str(launch.program), launch.work, launch.width)] = launch.work
    while (end := model.next_end()) is not None:
        ended |= {finished.kernel for finished in model.advance(end)}
    return model, spans, work, ended


@given(sizes, seatings, st.lists(launches, max_size=12))
def test_no_multiprocessor_is_used_twice_and_only_one_seat_runs_at_a_time(
    count: int, seating: Sequence[tuple[str, int | None]], story: list[Launch]
) -> None:
    _, spans, _, _ = played(count, seating, story)
    for before, after in pairwise(spans):
        assert before.end == after.begin
    for span in spans:
        assert sum(span.allocation.values()) <= count
        assert len({seating[int(program)][0] for program in span.allocation}) <= 1


@given(sizes, seatings, st.lists(launches, max_size=12))
def test_every_kernel_ends_and_the_work_done_is_the_work_that_was_launched(
    count: int, seating: Sequence[tuple[str, int | None]], story: list[Launch]
) -> None:
    model, spans, work, ended = played(count, seating, story)
    assert ended == set(work)
    assert model.used == sum(work.values())
    # Of a kernel's last nanosecond a part may be left over, on each multiprocessor it had.
    room = sum(sum(span.allocation.values()) * (span.end - span.begin) for span in spans)
    assert 0 <= room - model.used <= count * len(work)


@given(sizes, seatings, st.lists(launches, max_size=12))
def test_nobody_has_more_than_the_limit_allows(
    count: int, seating: Sequence[tuple[str, int | None]], story: list[Launch]
) -> None:
    _, spans, _, _ = played(count, seating, story)
    for span in spans:
        for program, given_now in span.allocation.items():
            threads = seating[int(program)][1]
            assert threads is None or given_now < 1 + count * threads / 100


@given(sizes, seatings, st.lists(launches, min_size=1, max_size=8))
def test_the_next_end_is_exactly_when_the_next_kernel_ends(
    count: int, seating: Sequence[tuple[str, int | None]], story: list[Launch]
) -> None:
    model = Multiprocessors(count)
    for number, (seat, threads) in enumerate(seating):
        model.enter(str(number), seat, threads)
    for launch in story:
        model.advance(model.now + launch.pause)
        model.launch(str(launch.program), launch.work, launch.width)
        end = model.next_end()
        assert end is not None
    while (end := model.next_end()) is not None:
        assert end > model.now
        assert model.advance(end - 1) == []
        assert {finished.ended for finished in model.advance(end)} == {end}


@given(st.lists(launches, max_size=12), st.lists(st.integers(1, 3 * MS), max_size=8))
def test_looking_more_often_changes_nothing(story: list[Launch], looks: list[int]) -> None:
    ends = []
    for steps in ([], looks):
        model = Multiprocessors(20)
        for number in range(5):
            model.enter(str(number), str(number))
        found = []
        for launch in story:
            found += model.advance(model.now + launch.pause)
            model.launch(str(launch.program), launch.work, launch.width)
        for step in steps:
            found += model.advance(model.now + step)
        ends.append(found + model.advance(1 << 50))
    assert ends[0] == ends[1]


@given(
    sizes,
    seatings,
    st.lists(st.tuples(launches, st.integers(0, 3)), max_size=10),
    st.lists(st.integers(1, 300 * MS), min_size=1, max_size=4),
)
def test_rounds_that_pass_at_once_are_as_if_somebody_had_watched_them(
    count: int, seating: Sequence[tuple[str, int | None]], story: list[tuple[Launch, int]], looks: list[int]
) -> None:
    told = []
    for seen in (None, lambda span: None):
        model = Multiprocessors(count, on_span=seen)
        for number, (seat, threads) in enumerate(seating):
            model.enter(str(number), seat, threads)
        found: list[object] = []
        for launch, interval in story:
            found += model.advance(model.now + launch.pause)
            model.slice_ns = SLICES[interval]
            model.launch(str(launch.program), launch.work, launch.width)
        for look in looks:
            found += model.advance(model.now + look)
            found += [model.now, model.used, model.next_end()]
        told.append(found)
    assert told[0] == told[1]


def test_an_hour_of_turns_takes_no_time() -> None:
    model = Multiprocessors(108)
    for program in "abc":
        model.enter(program, program)
        model.launch(program, 10**9 * SECOND, 32)
    began = time.process_time()
    assert model.advance(3600 * SECOND) == []
    assert time.process_time() - began < 5, "a turn at a time it would be a minute"
    assert model.now == 3600 * SECOND


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8).map(sorted), sizes)
def test_parts_are_fair(wanted: list[int], count: int) -> None:
    parts = max_min_fair(wanted, count)
    assert sum(parts) == min(sum(wanted), count)
    short = [part for part, wish in zip(parts, wanted, strict=True) if part < wish]
    # Who does not get what he wants has as much as anybody, but for what cannot be divided.
    assert all(part >= max(parts) - 1 for part in short)


def test_programs_in_turn_each_get_the_same_time_and_pay_for_every_switch() -> None:
    spans: list[Span] = []
    model = Multiprocessors(108, slice_ns=SLICES[3], on_span=spans.append)
    for name in "abc":
        model.enter(name, name)
        model.launch(name, 1000 * SECOND, 32)
    model.advance(30 * (SLICES[3] + SWITCH) - SWITCH)  # nothing has to be saved before the first slice
    had = {name: sum(span.end - span.begin for span in spans if name in span.allocation) for name in "abc"}
    assert had == dict.fromkeys("abc", 10 * SLICES[3])
    assert {max(span.allocation.values()) for span in spans if span.allocation} == {32}


def test_alone_a_program_never_switches_and_a_newcomer_waits_for_a_slice_at_most() -> None:
    spans: list[Span] = []
    model = Multiprocessors(10, slice_ns=5 * MS, on_span=spans.append)
    model.enter("a", "a")
    model.enter("b", "b")
    model.launch("a", 10 * SECOND, 10)
    model.advance(300 * MS)
    assert all(span.allocation == {"a": 10} for span in spans)
    model.launch("b", 10, 10)
    model.advance(400 * MS)
    begun = next(span.begin for span in spans if "b" in span.allocation)
    assert begun == 300 * MS + 5 * MS + SWITCH


def test_mps_clients_run_side_by_side_beside_a_program_that_takes_turns_with_them() -> None:
    spans: list[Span] = []
    model = Multiprocessors(108, on_span=spans.append)
    model.enter("x", "mps", 50)
    model.enter("y", "mps", 50)
    model.enter("z", "z")
    for name in "xyz":
        model.launch(name, 100 * SECOND, 200)
    model.advance(SECOND)
    assert {tuple(span.allocation.items()) for span in spans} == {(("x", 54), ("y", 54)), (("z", 108),), ()}


def test_more_than_a_hundred_per_cent_is_shared_equally() -> None:
    spans: list[Span] = []
    model = Multiprocessors(100, on_span=spans.append)
    for name in "wxyz":
        model.enter(name, "mps", 60)
        model.launch(name, 100 * SECOND, 200)
    model.advance(SECOND)
    assert [dict(span.allocation) for span in spans] == [{"w": 25, "x": 25, "y": 25, "z": 25}]


def test_a_program_that_leaves_in_its_turn_makes_room_at_once() -> None:
    model = Multiprocessors(10)
    model.enter("a", "a")
    model.enter("b", "b")
    model.launch("a", 100 * SECOND, 10)
    kernel = model.launch("b", 10 * MS, 10)
    model.leave("a")
    assert [finished.kernel for finished in model.advance(1 * MS + SWITCH)] == [kernel]
    assert model.programs == 1
