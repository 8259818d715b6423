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
    """A kernel that a program launches after a pause."""

    program: int
    pause: int
    work: int
    width: int


launches = st.builds(Launch, st.integers(0, 4), st.integers(0, 5 * MS), st.integers(1, 400 * MS), st.integers(1, 130))
#: The group and the limit of each of five programs.
memberships = st.tuples(*[st.tuples(st.sampled_from("abc"), st.none() | st.integers(1, 100)) for _ in range(5)])
sizes = st.integers(1, 108)


def simulate(
    count: int, groups: Sequence[tuple[str, int | None]], launch_list: Sequence[Launch]
) -> tuple[Multiprocessors, list[Span], dict[int, int], set[int]]:
    """Simulate launches to the end; returns the model, the spans, the work of each kernel, and the kernels that
    ended.
    """
    spans: list[Span] = []
    model = Multiprocessors(count, on_span=spans.append)
    for number, (group, threads) in enumerate(groups):
        model.enter(str(number), group, threads)
    work, ended = {}, set()
    for launch in launch_list:
        ended |= {finished.kernel for finished in model.advance(model.now + launch.pause)}
        work[model.launch(str(launch.program), launch.work, launch.width)] = launch.work
    while (end := model.next_end()) is not None:
        ended |= {finished.kernel for finished in model.advance(end)}
    return model, spans, work, ended


@given(sizes, memberships, st.lists(launches, max_size=12))
def test_no_multiprocessor_is_used_twice_and_only_one_group_runs_at_a_time(
    count: int, groups: Sequence[tuple[str, int | None]], launch_list: list[Launch]
) -> None:
    _, spans, _, _ = simulate(count, groups, launch_list)
    for before, after in pairwise(spans):
        assert before.end == after.begin
    for span in spans:
        assert sum(span.allocation.values()) <= count
        assert len({groups[int(program)][0] for program in span.allocation}) <= 1


@given(sizes, memberships, st.lists(launches, max_size=12))
def test_every_kernel_ends_and_the_work_done_is_the_work_that_was_launched(
    count: int, groups: Sequence[tuple[str, int | None]], launch_list: list[Launch]
) -> None:
    model, spans, work, ended = simulate(count, groups, launch_list)
    assert ended == set(work)
    assert model.used == sum(work.values())
    # Part of a kernel's last nanosecond can be unused, on each of its multiprocessors.
    room = sum(sum(span.allocation.values()) * (span.end - span.begin) for span in spans)
    assert 0 <= room - model.used <= count * len(work)


@given(sizes, memberships, st.lists(launches, max_size=12))
def test_no_program_exceeds_its_limit(
    count: int, groups: Sequence[tuple[str, int | None]], launch_list: list[Launch]
) -> None:
    _, spans, _, _ = simulate(count, groups, launch_list)
    for span in spans:
        for program, given_now in span.allocation.items():
            threads = groups[int(program)][1]
            assert threads is None or given_now < 1 + count * threads / 100


@given(sizes, memberships, st.lists(launches, min_size=1, max_size=8))
def test_the_next_end_is_exactly_when_the_next_kernel_ends(
    count: int, groups: Sequence[tuple[str, int | None]], launch_list: list[Launch]
) -> None:
    model = Multiprocessors(count)
    for number, (group, threads) in enumerate(groups):
        model.enter(str(number), group, threads)
    for launch in launch_list:
        model.advance(model.now + launch.pause)
        model.launch(str(launch.program), launch.work, launch.width)
        end = model.next_end()
        assert end is not None
    while (end := model.next_end()) is not None:
        assert end > model.now
        assert model.advance(end - 1) == []
        assert {finished.ended for finished in model.advance(end)} == {end}


@given(st.lists(launches, max_size=12), st.lists(st.integers(1, 3 * MS), max_size=8))
def test_the_advance_interval_does_not_change_the_result(launch_list: list[Launch], intervals: list[int]) -> None:
    ends = []
    for steps in ([], intervals):
        model = Multiprocessors(20)
        for number in range(5):
            model.enter(str(number), str(number))
        finished = []
        for launch in launch_list:
            finished += model.advance(model.now + launch.pause)
            model.launch(str(launch.program), launch.work, launch.width)
        for step in steps:
            finished += model.advance(model.now + step)
        ends.append(finished + model.advance(1 << 50))
    assert ends[0] == ends[1]


@given(
    sizes,
    memberships,
    st.lists(st.tuples(launches, st.integers(0, 3)), max_size=10),
    st.lists(st.integers(1, 300 * MS), min_size=1, max_size=4),
)
def test_skipped_rounds_equal_simulated_rounds(
    count: int, groups: Sequence[tuple[str, int | None]], launch_list: list[tuple[Launch, int]], intervals: list[int]
) -> None:
    results = []
    for on_span in (None, lambda span: None):
        model = Multiprocessors(count, on_span=on_span)
        for number, (group, threads) in enumerate(groups):
            model.enter(str(number), group, threads)
        result: list[object] = []
        for launch, interval in launch_list:
            result += model.advance(model.now + launch.pause)
            model.slice_ns = SLICES[interval]
            model.launch(str(launch.program), launch.work, launch.width)
        for step in intervals:
            result += model.advance(model.now + step)
            result += [model.now, model.used, model.next_end()]
        results.append(result)
    assert results[0] == results[1]


def test_an_hour_of_time_slices_is_skipped_quickly() -> None:
    model = Multiprocessors(108)
    for program in "abc":
        model.enter(program, program)
        model.launch(program, 10**9 * SECOND, 32)
    start = time.process_time()
    assert model.advance(3600 * SECOND) == []
    assert time.process_time() - start < 5, "simulating every slice would take a minute"
    assert model.now == 3600 * SECOND


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8).map(sorted), sizes)
def test_shares_are_fair(demands: list[int], count: int) -> None:
    shares = max_min_fair(demands, count)
    assert sum(shares) == min(sum(demands), count)
    short = [share for share, demand in zip(shares, demands, strict=True) if share < demand]
    # Every share below its demand equals the largest share, except for the indivisible remainder.
    assert all(share >= max(shares) - 1 for share in short)


def test_time_sliced_programs_get_the_same_time_and_every_switch_takes_time() -> None:
    spans: list[Span] = []
    model = Multiprocessors(108, slice_ns=SLICES[3], on_span=spans.append)
    for name in "abc":
        model.enter(name, name)
        model.launch(name, 1000 * SECOND, 32)
    model.advance(30 * (SLICES[3] + SWITCH) - SWITCH)  # no context switch before the first slice
    had = {name: sum(span.end - span.begin for span in spans if name in span.allocation) for name in "abc"}
    assert had == dict.fromkeys("abc", 10 * SLICES[3])
    assert {max(span.allocation.values()) for span in spans if span.allocation} == {32}


def test_a_single_program_never_switches_and_a_new_one_waits_at_most_one_slice() -> None:
    spans: list[Span] = []
    model = Multiprocessors(10, slice_ns=5 * MS, on_span=spans.append)
    model.enter("a", "a")
    model.enter("b", "b")
    model.launch("a", 10 * SECOND, 10)
    model.advance(300 * MS)
    assert all(span.allocation == {"a": 10} for span in spans)
    model.launch("b", 10, 10)
    model.advance(400 * MS)
    first = next(span.begin for span in spans if "b" in span.allocation)
    assert first == 300 * MS + 5 * MS + SWITCH


def test_mps_clients_run_concurrently_and_are_time_sliced_with_another_program() -> None:
    spans: list[Span] = []
    model = Multiprocessors(108, on_span=spans.append)
    model.enter("x", "mps", 50)
    model.enter("y", "mps", 50)
    model.enter("z", "z")
    for name in "xyz":
        model.launch(name, 100 * SECOND, 200)
    model.advance(SECOND)
    assert {tuple(span.allocation.items()) for span in spans} == {(("x", 54), ("y", 54)), (("z", 108),), ()}


def test_more_than_a_hundred_percent_is_shared_equally() -> None:
    spans: list[Span] = []
    model = Multiprocessors(100, on_span=spans.append)
    for name in "wxyz":
        model.enter(name, "mps", 60)
        model.launch(name, 100 * SECOND, 200)
    model.advance(SECOND)
    assert [dict(span.allocation) for span in spans] == [{"w": 25, "x": 25, "y": 25, "z": 25}]


def test_a_program_that_leaves_while_active_ends_its_slice() -> None:
    model = Multiprocessors(10)
    model.enter("a", "a")
    model.enter("b", "b")
    model.launch("a", 100 * SECOND, 10)
    kernel = model.launch("b", 10 * MS, 10)
    model.leave("a")
    assert [finished.kernel for finished in model.advance(1 * MS + SWITCH)] == [kernel]
    assert model.programs == 1
