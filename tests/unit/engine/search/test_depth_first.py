"""The search: the same first solution as upstream, without exponential run time."""

from __future__ import annotations

import pytest

from allotment.engine import AbortCause, Aborted, Allocated, Allocator, Inventory, Outcome, Unfit
from allotment.engine.search.depth_first import Search
from allotment.model.resource import Device, DeviceTaint, ResourceClaim
from tests.unit.engine.objects import (
    DRIVER,
    ROOT,
    claim,
    class_of,
    device,
    devices_of,
    first_of,
    holding,
    inventory,
    key,
    request,
    slice_of,
)

KIND_FULL = f'device.attributes["{DRIVER}"].full'
KIND = f'device.attributes["{DRIVER}"].kind'


def names(outcome: Outcome) -> list[list[str]]:
    assert isinstance(outcome, Allocated), outcome
    return devices_of(outcome.results)


def answer(devices: list[Device], *claims: ResourceClaim) -> Outcome:
    return Allocator(inventory(slice_of(*devices))).allocate("n1", claims)


def steps(made: Inventory, claims: list[ResourceClaim]) -> tuple[int, bool]:
    """The number of steps of the search, and whether it finds a solution."""
    allocator = Allocator(made)
    work, view = allocator.cache_for(claims), made.view("n1")
    search = Search(work.shape, work.pattern(view), view.state(made.usage))
    found = type(search.run()).__name__
    return search.steps, found == "Solution"


# --- the order of solutions ------------------------------------------------------------------------------------------


def test_match_attribute_takes_the_first_value_that_enough_devices_have() -> None:
    devices = [device("a", m=1), device("b", m=2), device("c", m=2)]
    assert names(answer(devices, claim(request(2), match=f"{DRIVER}/m"))) == [["b", "c"]]


def test_a_device_without_the_attribute_satisfies_no_constraint() -> None:
    assert isinstance(answer([device("a")], claim(request(1), match=f"{DRIVER}/m")), Unfit)
    assert isinstance(answer([device("a")], claim(request(1), distinct=f"{DRIVER}/m")), Unfit)


def test_distinct_attribute_compares_all_devices() -> None:
    devices = [device("a", m=1), device("b", m=2), device("c", m=1)]
    assert isinstance(answer(devices, claim(request(3), distinct=f"{DRIVER}/m")), Unfit)
    assert names(answer([*devices, device("d", m=3)], claim(request(3), distinct=f"{DRIVER}/m"))) == [["a", "b", "d"]]


def test_an_alternative_is_taken_only_if_all_claims_fit_with_it() -> None:
    devices = [device("a", m=1), device("b", m=2), device("c", m=2)]
    both = claim(request(1, name="q"), first_of((2, ""), (1, "")), match=f"{DRIVER}/m")
    found = answer(devices, both)
    assert isinstance(found, Allocated)
    results = found.results[0].devices.results
    assert [(r.request, r.device) for r in results] == [("q", "b"), ("r/b", "c")]


def test_all_takes_every_device_or_none() -> None:
    devices = [device("a"), device("b")]
    assert names(answer(devices, claim(request(0)))) == [["a", "b"]]
    assert isinstance(answer(devices, claim(request(1, name="q"), request(0))), Unfit)
    assert isinstance(answer([], claim(request(0))), Unfit)


def test_mode_all_with_a_violated_constraint_is_an_error() -> None:
    stopped = answer([device("a", m=1), device("b", m=2)], claim(request(0), match=f"{DRIVER}/m"))
    assert isinstance(stopped, Aborted)
    assert stopped.cause is AbortCause.CONSTRAINT_WITH_ALL
    assert stopped.text == (
        "claim default/c, request r: cannot add device gpu.example.com/n1/b "
        "because a claim constraint would not be satisfied"
    )


def test_a_failing_selector_is_fatal_only_if_the_search_reaches_it() -> None:
    devices = [device("a", kind="x"), device("b")]
    selective = f'{KIND} == "x"'
    assert names(answer(devices, claim(request(1, selective)))) == [["a"]]
    stopped = answer(devices, claim(request(2, selective)))
    assert isinstance(stopped, Aborted)
    assert stopped.fatal
    assert stopped.text == "claim default/c: selector #0: CEL runtime error: no such key: kind"
    assert str(stopped.device) == "gpu.example.com/n1/b"


def test_selectors_are_not_evaluated_on_devices_in_use() -> None:
    made = inventory(slice_of(device("a", kind="x"), device("b")))
    made.allocate(key(claim(name="other")), holding("b"))
    selective = f'{KIND} == "x"'
    assert isinstance(Allocator(made).allocate("n1", [claim(request(2, selective))]), Unfit)


def test_more_than_32_devices_are_an_error_or_select_a_smaller_alternative() -> None:
    devices = [device(f"d{i}") for i in range(40)]
    stopped = answer(devices, claim(request(20, name="q"), request(13)))
    assert isinstance(stopped, Aborted)
    assert stopped.text == "claim default/c: number of requested devices 33 exceeds the claim limit of 32"
    found = answer(devices, claim(request(20, name="q"), first_of((20, ""), (2, ""))))
    assert isinstance(found, Allocated)
    assert [r.request for r in found.results[0].devices.results][20:] == ["r/b", "r/b"]


# --- partitions, shares, admin access --------------------------------------------------------------------------------


def partitioned(*devices: Device, memory: str = "40") -> Inventory:
    return inventory(
        slice_of(name="counters", counters={"gpu-0": memory}, count=2), slice_of(*devices, name="devices", count=2)
    )


def test_chosen_and_allocated_devices_consume_counters() -> None:
    made = partitioned(
        device("full", draws={"gpu-0": "40"}, full=True),
        device("h0", draws={"gpu-0": "20"}, full=False),
        device("h1", draws={"gpu-0": "20"}, full=False),
    )
    allocator = Allocator(made)
    assert names(allocator.allocate("n1", [claim(request(1))])) == [["full"]]
    assert names(allocator.allocate("n1", [claim(request(2))])) == [["h0", "h1"]]
    made.allocate(key(claim(name="other")), holding("h0"))
    assert names(allocator.allocate("n1", [claim(request(1))])) == [["h1"]]
    assert isinstance(allocator.allocate("n1", [claim(request(2))]), Unfit)
    # Admin access does not bypass the counters of a partition.
    assert isinstance(allocator.allocate("n1", [claim(request(1, KIND_FULL, admin=True))]), Unfit)


def test_a_rejected_device_does_not_keep_its_counters() -> None:
    # Kubernetes until 1.36 keeps them (kubernetes/kubernetes#140436) and answers that nothing fits.
    taint = DeviceTaint(key="k", effect="NoSchedule")
    tainted = partitioned(device("full", draws={"gpu-0": "40"}, taints=(taint,)), device("h0", draws={"gpu-0": "20"}))
    assert names(Allocator(tainted).allocate("n1", [claim(request(1))])) == [["h0"]]
    differing = partitioned(
        device("h0", draws={"gpu-0": "20"}, m=1),
        device("h1", draws={"gpu-0": "20"}, m=2),
        device("h2", draws={"gpu-0": "20"}, m=1),
    )
    assert names(Allocator(differing).allocate("n1", [claim(request(2), match=f"{DRIVER}/m")])) == [["h0", "h2"]]


def test_drivers_with_equal_pool_names_have_separate_counters() -> None:
    # Kubernetes until 1.36 keeps them in one book (kubernetes/kubernetes#140434).
    slices = [
        part
        for driver in ("a.com", "b.com")
        for part in (
            slice_of(name=f"{driver}-counters", counters={"gpu-0": "40"}, count=2, driver=driver),
            slice_of(device("full", draws={"gpu-0": "40"}), name=f"{driver}-devices", count=2, driver=driver),
        )
    ]
    assert names(Allocator(inventory(*slices)).allocate("n1", [claim(request(2))])) == [["full", "full"]]


def test_shares_add_up_to_the_capacity_and_have_ids() -> None:
    made = inventory(slice_of(device("a", memory="10Gi", shareable=True)))
    allocator = Allocator(made)
    thrice = [claim(request(1, memory="3Gi", name=f"r{i}"), name=f"c{i}") for i in range(3)]
    found = allocator.allocate("n1", thrice)
    assert names(found) == [["a"], ["a"], ["a"]]
    assert isinstance(found, Allocated)
    shares = {r.devices.results[0].share_id for r in found.results}
    assert len(shares) == 3
    assert isinstance(allocator.allocate("n1", [claim(request(1, memory="6Gi", name=n), name=n) for n in "ab"]), Unfit)
    assert isinstance(allocator.allocate("n1", [claim(request(2, memory="3Gi"))]), Unfit)


def test_admin_access_can_use_devices_in_use_and_blocks_other_requests() -> None:
    made = inventory(slice_of(device("a")))
    allocator = Allocator(made)
    watch = request(1, name="watch", admin=True)
    assert names(allocator.allocate("n1", [claim(watch, name="x"), claim(watch, name="y")])) == [["a"], ["a"]]
    assert isinstance(allocator.allocate("n1", [claim(watch, request(1))]), Unfit)
    made.allocate(key(claim(name="other")), holding("a"))
    assert names(allocator.allocate("n1", [claim(watch)])) == [["a"]]


# --- no explosions ---------------------------------------------------------------------------------------------------

N = 64
EXPLODING = {
    "n free, n + 1 wanted": (
        [device(f"d{i}") for i in range(N)],
        [claim(request(32), name=f"c{i}") for i in range(2)] + [claim(request(1), name="last")],
    ),
    "n free, n + 1 claims": (
        [device(f"d{i}") for i in range(N)],
        [claim(request(1), name=f"c{i}") for i in range(N + 1)],
    ),
    "match with two equal roots": (
        [device(f"d{i}", root=f"root-{i % 2}") for i in range(2 * 31)],
        [claim(request(32), match=ROOT)],
    ),
    "two requests of k, 2k - 1 devices": (
        [device(f"d{i}") for i in range(63)],
        [claim(request(32), name="a"), claim(request(32), name="b")],
    ),
    "claims of 3 in roots of 4": (
        [device(f"d{i}", root=f"root-{i % 16}") for i in range(N)],
        [claim(request(3), match=ROOT, name=f"c{i}") for i in range(17)],
    ),
    "one distinct value too few": (
        [device(f"d{i}", root=f"root-{i % 8}") for i in range(N)],
        [claim(request(9), distinct=ROOT)],
    ),
    "every device is different, one too few": (
        [device(f"d{i}", index=i, root=f"root-{i}") for i in range(N)],
        [claim(request(32), distinct=ROOT, name=f"c{i}") for i in range(2)] + [claim(request(1), name="last")],
    ),
}


@pytest.mark.parametrize("case", EXPLODING)
def test_infeasible_searches_are_refused_by_counting(case: str) -> None:
    devices, claims = EXPLODING[case]
    assert steps(inventory(slice_of(*devices)), claims) == (0, False)


def test_a_search_that_counting_cannot_decide_takes_few_steps() -> None:
    # Eight GPUs, each may be one full or two halves or four quarters; the last request cannot be met.
    slices = [slice_of(name="counters", counters={f"gpu-{g}": "40" for g in range(8)}, count=2)]
    parts = [
        device(f"{g}-{kind}-{i}", draws={f"gpu-{g}": str(40 // n)}, kind=kind)
        for g in range(8)
        for kind, n in (("full", 1), ("half", 2), ("quarter", 4))
        for i in range(n)
    ]
    slices.append(slice_of(*parts, name="devices", count=2))
    wanted = [claim(request(1, f'{KIND} == "quarter"'), name=f"q{i}") for i in range(3)]
    wanted.append(claim(request(6, f'{KIND} == "full"', name="f"), request(4, f'{KIND} == "half"', name="h")))
    taken, found = steps(inventory(*slices, classes=(class_of(),)), wanted)
    assert not found
    assert taken < 3000


def test_a_search_beyond_the_step_limit_is_undecided_and_reports_its_steps() -> None:
    made = inventory(slice_of(*[device(f"d{i}", m=i) for i in range(20)]))
    fits = [claim(request(5), match=f"{DRIVER}/m")]
    assert isinstance(Allocator(made).allocate("n1", fits), Unfit)
    stopped = Allocator(made, step_limit=3).allocate("n1", [claim(request(5))])
    assert isinstance(stopped, Aborted)
    assert stopped.cause is AbortCause.WORK_LIMIT
    assert not stopped.fatal, "another node may fit"
    assert stopped.steps == 3
    assert stopped.text == "claim default/c, request r: search stopped after 3 steps without a result"
