from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cdi.spec import (
    VERSIONS,
    CdiDevice,
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    InvalidSpec,
    Mount,
    NetDevice,
    Spec,
    decode,
    depth,
    encode,
    merge,
    minimum_version,
    validate,
)
from tests.unit.cdi import strategies

_ENV = ContainerEdits(env=("A=1",))


def _spec(edits: ContainerEdits = _ENV, name: str = "gpu", **more: object) -> Spec:
    return msgspec.structs.replace(Spec("example.com/gpu", (CdiDevice(name, edits),)), **more)


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        (_spec(), "0.3.0"),
        (_spec(ContainerEdits(mounts=(Mount("/a", "/b"),))), "0.3.0"),
        (_spec(ContainerEdits(mounts=(Mount("/a", "/b", type="tmpfs"),))), "0.4.0"),
        (_spec(ContainerEdits(device_nodes=(DeviceNode("/dev/a", host_path="/dev/b"),))), "0.5.0"),
        (_spec(name="7f0c-gpu"), "0.5.0"),
        (_spec(annotations={"a": "b"}), "0.6.0"),
        (_spec(devices=(CdiDevice("gpu", _ENV, {"a": "b"}),)), "0.6.0"),
        (_spec(kind="example.com/gpu.large"), "0.6.0"),
        (_spec(ContainerEdits(additional_gids=(44,))), "0.7.0"),
        (_spec(ContainerEdits(intel_rdt=IntelRdt("gold"))), "0.7.0"),
        (_spec(ContainerEdits(intel_rdt=IntelRdt(schemata=()))), "1.1.0"),
        (_spec(ContainerEdits(intel_rdt=IntelRdt(enable_monitoring=True))), "1.1.0"),
        (_spec(container_edits=ContainerEdits(net_devices=(NetDevice("eth1", "net0"),))), "1.1.0"),
    ],
)
def test_a_file_has_the_lowest_version_for_its_fields(spec: Spec, version: str) -> None:
    assert minimum_version(spec) == version
    assert json.loads(encode(spec))["cdiVersion"] == version


@given(strategies.specs, st.sampled_from(VERSIONS))
def test_a_version_is_valid_from_the_minimum_version(spec: Spec, version: str) -> None:
    written = msgspec.structs.replace(spec, cdi_version=version)
    if VERSIONS.index(version) >= VERSIONS.index(minimum_version(spec)):
        validate(written)
    else:
        with pytest.raises(InvalidSpec, match="cdiVersion: expected at least"):
            validate(written)


@given(strategies.specs, st.sampled_from(["devices", "container_edits", "annotations"]))
def test_removing_a_field_never_increases_the_version(spec: Spec, field: str) -> None:
    least = {"devices": spec.devices[:1], "container_edits": ContainerEdits(), "annotations": {}}
    smaller = msgspec.structs.replace(spec, **{field: least[field]})
    assert VERSIONS.index(minimum_version(smaller)) <= VERSIONS.index(minimum_version(spec))


@given(strategies.specs)
def test_encoding_round_trips(spec: Spec) -> None:
    assert decode(encode(spec)) == msgspec.structs.replace(spec, cdi_version=minimum_version(spec))


@given(strategies.specs)
def test_fields_have_camel_case_names_and_defaults_are_omitted(spec: Spec) -> None:
    tree = json.loads(encode(spec))
    assert list(tree)[:3] == ["cdiVersion", "kind", "devices"]
    assert all("containerEdits" in device for device in tree["devices"])
    known = {"env", "deviceNodes", "mounts", "hooks", "netDevices", "additionalGids", "intelRdt"}
    assert all(set(device["containerEdits"]) <= known for device in tree["devices"])
    assert "null" not in encode(spec).decode()


def test_clos_id_is_spelled_as_in_oci() -> None:
    assert b'"closID": "gold"' in encode(_spec(ContainerEdits(intel_rdt=IntelRdt("gold", "L3:0=f", "MB:0=10"))))


@given(st.lists(strategies.edits, max_size=4))
def test_merging_is_associative(several: list[ContainerEdits]) -> None:
    stepwise = ContainerEdits()
    for edits in several:
        stepwise = stepwise.merged(edits)
    assert merge(several) == merge([stepwise]) == merge([merge(several[:2]), merge(several[2:])])


@given(st.lists(strategies.edits, max_size=4))
def test_merged_edits_have_each_name_once_with_its_last_value(several: list[ContainerEdits]) -> None:
    merged = merge(several)
    for field, key in (("device_nodes", "path"), ("mounts", "container_path")):
        expected = {getattr(item, key): item for edits in several for item in getattr(edits, field)}
        assert {getattr(item, key): item for item in getattr(merged, field)} == expected
        assert len(getattr(merged, field)) == len(expected)
    env = dict(variable.split("=") for edits in several for variable in edits.env)
    assert dict(variable.split("=") for variable in merged.env) == env
    assert len(merged.env) == len(env)


@given(st.lists(strategies.edits, max_size=4))
def test_parent_folders_are_mounted_first(several: list[ContainerEdits]) -> None:
    paths = [mount.container_path for mount in merge(several).mounts]
    assert [depth(path) for path in paths] == sorted(depth(path) for path in paths)


def test_group_zero_is_not_an_additional_group() -> None:
    assert merge(
        [ContainerEdits(additional_gids=(0, 44)), ContainerEdits(additional_gids=(44, 109))]
    ).additional_gids == (44, 109)


def test_empty_edits_are_false() -> None:
    assert not ContainerEdits()
    assert not merge([])
    assert ContainerEdits(intel_rdt=IntelRdt())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "vendor.json: line 2: invalid YAML"),
        ("[]", "vendor.json: Expected `object`, got `array`"),
        ("", "vendor.json: expected one document, found 0"),
        ('{"cdiVersion": "0.5.0", "kind": "ab/cd", "devices": [], "extra": 1}', "unknown field `extra`"),
        (
            '{"cdiVersion": "0.5.0", "kind": "ab/cd", "devices": [{"name": "x", "containerEdits": {"envs": []}}]}',
            "vendor.json: Object contains unknown field `envs` - at `$.devices[0].containerEdits`",
        ),
        (
            '{"cdiVersion": "0.5.0", "kind": "ab/cd", "devices": [{"name": "x", "containerEdits": {"env": "A=1"}}]}',
            "Expected `array`, got `str` - at `$.devices[0].containerEdits.env`",
        ),
        (
            '{"kind": "ab/cd", "devices": [{"name": "x", "containerEdits": {"env": ["A=1"]}}]}',
            "cdiVersion: expected one of",
        ),
        ('{"kind": "ab/cd", "kind": "a/c"}', "vendor.json: line 1: kind is set twice"),
    ],
)
def test_the_error_for_an_invalid_file_has_its_name_and_the_field(text: str, expected: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        decode(text.encode(), "vendor.json")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("vendor.json: ")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (_spec(cdi_version="0.2.0"), "cdiVersion: expected one of 0.3.0"),
        (_spec(kind="gpu"), "kind: expected vendor/class, found 'gpu'"),
        (_spec(name="gpu-"), "devices[0].name: 'gpu-'"),
        (_spec(devices=()), "devices: expected at least one"),
        (_spec(devices=(CdiDevice("x", _ENV), CdiDevice("x", _ENV))), "devices[1].name: 'x' is used twice"),
        (_spec(ContainerEdits()), "devices[0].containerEdits: expected at least one edit"),
        (_spec(ContainerEdits(env=("=1",))), "env[0]: expected NAME=value, found '=1'"),
        (_spec(ContainerEdits(device_nodes=(DeviceNode("", type="c"),))), "deviceNodes[0].path"),
        (_spec(ContainerEdits(device_nodes=(DeviceNode("/dev/a", type="x"),))), "deviceNodes[0].type"),
        (_spec(ContainerEdits(device_nodes=(DeviceNode("/dev/a", permissions="rx"),))), "deviceNodes[0].permissions"),
        (_spec(ContainerEdits(mounts=(Mount("", "/b"),))), "mounts[0].hostPath"),
        (_spec(ContainerEdits(hooks=(Hook("start", "/h"),))), "hooks[0].hookName: expected one of prestart"),
        (_spec(ContainerEdits(hooks=(Hook("prestart", "h"),))), "hooks[0].path: expected an absolute path"),
        (_spec(ContainerEdits(hooks=(Hook("prestart", "/h", timeout=0),))), "hooks[0].timeout"),
        (_spec(ContainerEdits(hooks=(Hook("prestart", "/h", env=("A",)),))), "hooks[0].env[0]"),
        (_spec(ContainerEdits(net_devices=(NetDevice("a", "n"), NetDevice("b", "n")))), "netDevices"),
        (_spec(ContainerEdits(intel_rdt=IntelRdt("a/b"))), "intelRdt.closID"),
        (_spec(container_edits=ContainerEdits(env=("A",))), "containerEdits.env[0]"),
    ],
)
def test_invalid_specifications_are_not_written(spec: Spec, expected: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        encode(spec)
    assert expected in str(caught.value)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(InvalidSpec, match=r"kind: .*; devices\[0\]\.name: "):
        validate(_spec(kind="gpu", name="-"))


def test_yaml_is_read_like_json() -> None:
    text = """
cdiVersion: v0.6.0
kind: nvidia.com/gpu
annotations: {made-by: hand}
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - {path: /dev/nvidia0, permissions: rw, fileMode: 438}
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  mounts: null
"""
    spec = decode(text.encode(), "nvidia.yaml")
    assert spec.devices[0].container_edits.device_nodes == (
        DeviceNode("/dev/nvidia0", permissions="rw", file_mode=0o666),
    )
    assert spec.container_edits == ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",))
