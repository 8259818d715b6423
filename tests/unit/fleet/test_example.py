"""Example hardware: its modes and published devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet import FleetError, cluster_of, hardware, parse_fleet, parse_mode
from allotment.fleet.modes import ExampleMode, mode_label

MODES = st.builds(
    ExampleMode, partitions=st.integers(0, 16), shared=st.booleans(), binding=st.booleans(), status=st.booleans(),
    nics=st.integers(0, 16), numa=st.integers(0, 16),
)  # fmt: skip


def written(mode: ExampleMode) -> str:
    words = [name for name in ("shared", "binding", "status") if getattr(mode, name)]
    words += [f"{name}={getattr(mode, name)}" for name in ("partitions", "nics", "numa") if getattr(mode, name)]
    return "+".join(words)


@given(MODES, st.integers(1, 16))
def test_a_mode_round_trips_and_publishes_its_devices(mode: ExampleMode, gpus: int) -> None:
    assert parse_mode(written(mode), hardware("example", gpus)) == mode
    slices = cluster_of(parse_fleet([f"n={gpus}xexample/{written(mode)}"])).slices
    devices = dict.fromkeys(("gpu.example.com", "net.example.com", "cpu.example.com"), 0)
    for slice_ in slices:
        devices[slice_.spec.driver] += len(slice_.spec.devices or ())
        assert len(slice_.spec.devices or ()) <= (64 if mode.partitions else 128)
    assert devices == {
        "gpu.example.com": gpus * (mode.partitions + 1), "net.example.com": mode.nics, "cpu.example.com": mode.numa
    }  # fmt: skip


def test_a_fleet_names_nodes_by_mode_and_includes_the_classes() -> None:
    (machine,) = parse_fleet(["2xexample/partitions=4+shared"])
    assert machine.node == "2xexample-shared-partitions-1"
    assert mode_label(ExampleMode()) == ""
    cluster = cluster_of([machine])
    assert len(cluster_of(parse_fleet(["8xexample/nics=2"])).slices) == 2
    assert [device_class.metadata.name for device_class in cluster.classes] == [
        "gpu.example.com",
        "net.example.com",
        "cpu.example.com",
    ]
    assert not any("pci" in name for name in cluster.nodes[0].metadata.labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partitions", "mode partitions: expected a number from 1 to 16, found ''"),
        ("partitions=17", "mode partitions: expected a number from 1 to 16, found '17'"),
        ("nics=many", "mode nics: expected a number from 1 to 16, found 'many'"),
        ("shared=2", "unknown mode 'shared=2'"),
        ("shard", "unknown mode 'shard'"),
    ],
)
def test_invalid_modes_are_rejected(text: str, message: str) -> None:
    with pytest.raises(FleetError) as caught:
        parse_mode(text, hardware("example"))
    assert message in str(caught.value)
