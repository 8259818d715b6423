from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cdi.oci import DeviceNumbers, InjectionError, apply, read_device_numbers
from allotment.cdi.spec import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice, merge
from tests.unit.cdi import strategies

_CONFIG: dict[str, Any] = {
    "ociVersion": "1.0.2",
    "process": {"env": ["PATH=/bin", "A=0"], "user": {"uid": 0, "gid": 0}},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
}


def _numbers(path: str) -> DeviceNumbers:
    return DeviceNumbers("c", 195, int(path[-1]))


@given(st.lists(strategies.edits, max_size=3))
def test_merged_edits_are_equivalent_to_sequential_ones(several: list[ContainerEdits]) -> None:
    stepwise = _CONFIG
    for edits in several:
        stepwise = apply(stepwise, edits, _numbers)
    stepwise = apply(stepwise, ContainerEdits(), _numbers)
    at_once = apply(_CONFIG, merge(several), _numbers)
    # If a node is replaced, sequential application keeps the device rule; merged edits never add it.
    for config in (stepwise, at_once):
        config.get("linux", {}).pop("resources", None)
    assert at_once == stepwise


@given(strategies.edits)
def test_the_input_configuration_is_not_changed(edits: ContainerEdits) -> None:
    before = copy.deepcopy(_CONFIG)
    apply(_CONFIG, edits, _numbers)
    assert before == _CONFIG


def test_a_variable_is_replaced_in_its_position() -> None:
    edited = apply(_CONFIG, ContainerEdits(env=("B=1", "A=2")))
    assert edited["process"]["env"] == ["PATH=/bin", "A=2", "B=1"]


def test_a_node_gets_unset_numbers_from_the_host_and_a_device_rule() -> None:
    edits = ContainerEdits(device_nodes=(DeviceNode("/dev/nvidia3", permissions="rw"),))
    linux = apply(_CONFIG, edits, _numbers)["linux"]
    assert linux["devices"] == [{"path": "/dev/nvidia3", "type": "c", "major": 195, "minor": 3}]
    assert linux["resources"]["devices"] == [{"allow": True, "type": "c", "major": 195, "minor": 3, "access": "rw"}]


def test_a_node_may_have_another_path_on_the_host() -> None:
    node = DeviceNode("/dev/gpu", host_path="/dev/dri/card7", uid=5, gid=6, file_mode=0o660)
    entry = apply(_CONFIG, ContainerEdits(device_nodes=(node,)), _numbers)["linux"]["devices"][0]
    assert entry == {"path": "/dev/gpu", "type": "c", "major": 195, "minor": 7, "fileMode": 0o660, "uid": 5, "gid": 6}


def test_a_node_is_owned_by_the_container_s_user() -> None:
    config = {"process": {"user": {"uid": 1000, "gid": 0}}}
    node = DeviceNode("/dev/a", type="b", major=1, minor=2)
    assert apply(config, ContainerEdits(device_nodes=(node,)))["linux"]["devices"] == [
        {"path": "/dev/a", "type": "b", "major": 1, "minor": 2, "uid": 1000}
    ]


def test_a_pipe_and_a_node_without_permissions_get_no_rule() -> None:
    nodes = (DeviceNode("/dev/p", type="p"), DeviceNode("/dev/c", type="c", major=1, minor=3, permissions="none"))
    linux = apply(_CONFIG, ContainerEdits(device_nodes=nodes))["linux"]
    assert [entry["path"] for entry in linux["devices"]] == ["/dev/p", "/dev/c"]
    assert "resources" not in linux


def test_a_node_with_another_type_than_on_the_host_is_rejected() -> None:
    with pytest.raises(InjectionError, match=r"/dev/nvidia0: expected type 'b', found 'c' on the host"):
        apply(_CONFIG, ContainerEdits(device_nodes=(DeviceNode("/dev/nvidia0", type="b"),)), _numbers)


def test_device_numbers_are_read_from_the_host(tmp_path: Path) -> None:
    assert read_device_numbers("/dev/null") == DeviceNumbers("c", 1, 3)
    (tmp_path / "file").touch()
    with pytest.raises(InjectionError, match="expected a device file"):
        read_device_numbers(str(tmp_path / "file"))
    with pytest.raises(InjectionError, match="No such file"):
        read_device_numbers(str(tmp_path / "none"))


def test_a_mount_replaces_an_equal_one_and_mounts_are_sorted_by_depth() -> None:
    edits = ContainerEdits(mounts=(Mount("/y", "/a/b/c", ("ro", "bind")), Mount("/p", "/proc"), Mount("/x", "/a/b")))
    assert apply(_CONFIG, edits)["mounts"] == [
        {"destination": "/proc", "source": "/p"},
        {"destination": "/a/b", "source": "/x"},
        {"destination": "/a/b/c", "source": "/y", "options": ["ro", "bind"]},
    ]


def test_hooks_interfaces_groups_and_intel_rdt() -> None:
    edits = ContainerEdits(
        hooks=(Hook("createContainer", "/h", ("h", "x"), ("A=1",), 5), Hook("createContainer", "/i")),
        net_devices=(NetDevice("eth1", "net0"),),
        additional_gids=(0, 44, 44),
        intel_rdt=IntelRdt("gold", schemata=("MB:0=50",)),
    )
    edited = apply(_CONFIG, edits)
    assert edited["hooks"] == {
        "createContainer": [{"path": "/h", "args": ["h", "x"], "env": ["A=1"], "timeout": 5}, {"path": "/i"}]
    }
    assert edited["linux"] == {
        "netDevices": {"eth1": {"name": "net0"}},
        "intelRdt": {"closID": "gold", "schemata": ["MB:0=50"]},
    }
    assert edited["process"]["user"]["additionalGids"] == [44]
