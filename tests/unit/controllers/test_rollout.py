"""Rolling update arithmetic keeps its bounds for all inputs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.controllers.rollout import Sized, bounds, new_size, old_sizes, proportional

amounts = st.one_of(st.integers(0, 5), st.integers(0, 100).map(lambda part: f"{part}%"))


@given(st.integers(1, 30), amounts, amounts, st.lists(st.integers(0, 30), min_size=1, max_size=3), st.data())
def test_an_update_always_completes_within_its_bounds(
    wanted: int, surge: int | str, unavailable: int | str, olds: list[int], data: st.DataObject
) -> None:
    limits = bounds(wanted, surge, unavailable)
    assert limits.surge + limits.unavailable > 0
    new = 0
    old = {f"old-{number}": size for number, size in enumerate(olds)}
    most = max(wanted + limits.surge, sum(olds))
    for _ in range(500):
        grown = new_size(wanted, limits.surge, new, new + sum(old.values()))
        sizes = {} if grown != new else old_sizes(
            wanted, limits.unavailable, Sized("new", new, new, wanted),
            [Sized(name, size, size, wanted) for name, size in old.items()],
        )  # fmt: skip
        if grown == new and not sizes:
            break
        before = new + sum(old.values())
        new, old = grown, {**old, **sizes}
        total = new + sum(old.values())
        assert total <= most
        assert total >= min(before, wanted - limits.unavailable)
    assert (new, sum(old.values())) == (wanted, 0)


def test_unhealthy_old_pods_are_removed_first() -> None:
    sets = [Sized("older", 3, 3, 10), Sized("old", 5, 0, 10)]
    assert old_sizes(10, 2, Sized("new", 2, 2, 10), sets) == {"old": 3}


@given(st.integers(0, 50), st.integers(0, 5), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_scaling_during_an_update_is_proportional_and_exact(wanted: int, surge: int, old: list[int]) -> None:
    sets = [Sized(str(number), size, size, sum(old)) for number, size in enumerate(old)]
    sizes = proportional(wanted, surge, sets)
    assert all(size >= 0 for size in sizes.values())
    goal, total = (wanted + surge if wanted else 0), sum(sizes.values())
    # The largest set gets the rounding difference, as in Kubernetes; a set that is too small becomes empty.
    assert total == goal or (total > goal and 0 in sizes.values())
