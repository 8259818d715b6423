"""The part of a card that a partition occupies, by the way in which drivers publish it."""

from __future__ import annotations

import pytest

from allotment.model.resource import ResourceSlice
from allotment.screens.device_geometry import geometry_of
from tests.unit.screens.clusters import fleet


def spans(machine: str) -> dict[str, tuple[int, int, int] | None]:
    slices = [each for each in fleet(machine) if isinstance(each, ResourceSlice)]
    return {name: geometry.span for (_, _, name), geometry in geometry_of(slices).items()}


def test_static_mig_devices_are_where_their_names_say() -> None:
    found = spans("a30/static-mig=1g.6gb:2+2g.12gb")
    assert found == {
        "gpu-0-mig-1g6gb-14-0": (0, 1, 4), "gpu-0-mig-1g6gb-14-1": (1, 1, 4), "gpu-0-mig-2g12gb-5-2": (2, 2, 4)
    }  # fmt: skip


def test_partitions_of_one_pci_device_follow_each_other() -> None:
    assert sorted(filter(None, spans("mi300x/cpx").values())) == [(number, 1, 8) for number in range(8)]


def test_numbered_counters_are_the_row() -> None:
    assert spans("a100-40gb/dynamic-mig")["gpu-0-mig-1g10gb-15-2"] == (2, 2, 8)


@pytest.mark.parametrize("machine", ["t4-4x-pcie", "a10/shared"])
def test_whole_devices_have_no_card(machine: str) -> None:
    assert spans(machine) == {}


def test_partitions_with_other_counters_only_have_a_card() -> None:
    assert set(spans("mi300x/auto").values()) == {None}
