"""The parameters that apply to a device, and errors in parameters."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.driver import ClaimError
from allotment.drivers.preparation import configuration
from allotment.drivers.preparation.configuration import decode
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceAllocationConfiguration, OpaqueDeviceConfiguration


class Slices(msgspec.Struct, rename="camel"):
    """The type of a field in the parameters."""

    interval: Literal["Default", "Short", "Long"] = "Default"
    memory_limit: Quantity | None = None
    limits: dict[str, Quantity] = {}


class GpuConfig(msgspec.Struct, rename="camel"):
    """Parameters for whole GPUs."""

    sharing: Slices | None = None
    count: int = 1
    names: tuple[str, ...] = ()
    fast: bool = False


class PartConfig(msgspec.Struct, rename="camel"):
    """Parameters for parts of GPUs."""

    size: int = 1


CONFIGS: dict[tuple[str, str], type] = {("v1", "GpuConfig"): GpuConfig, ("v1", "PartConfig"): PartConfig}


class FakeParameters:
    name = "gpu.test"
    configs = CONFIGS

    def config_applies(self, device: str, config: Any) -> bool:
        return isinstance(config, PartConfig) == device.startswith("part-")

    def validate(self, config: Any) -> None:
        if isinstance(config, GpuConfig) and config.count > 9:
            raise ClaimError(f"count: expected at most 9, found {config.count}")


def entry(
    source: str, requests: tuple[str, ...], count: int = 1, kind: str = "GpuConfig", driver: str = "gpu.test"
) -> Any:
    field = "count" if kind == "GpuConfig" else "size"
    parameters = {"apiVersion": "v1", "kind": kind, field: count}
    return DeviceAllocationConfiguration(
        source=source, requests=requests, opaque=OpaqueDeviceConfiguration(driver=driver, parameters=parameters)
    )


def effective(entries: list[Any], request: str, device: str) -> Any:
    config = configuration.effective_config(
        FakeParameters(), configuration.read(FakeParameters(), entries), request, device
    )
    return None if config is None else getattr(config, "count", None) or config.size


@pytest.mark.parametrize(
    ("entries", "request_", "wins"),
    [
        ([], "a", None),
        ([("FromClass", (), 1), ("FromClass", (), 2)], "a", 2),
        ([("FromClaim", (), 1), ("FromClass", (), 2)], "a", 1),
        ([("FromClass", ("a",), 1), ("FromClaim", ("b",), 2)], "a", 1),
        ([("FromClass", ("a",), 1), ("FromClaim", (), 2)], "a", 2),
        ([("FromClaim", ("a",), 1), ("FromClaim", ("a/x",), 2)], "a/x", 2),
        ([("FromClaim", ("a",), 1), ("FromClaim", ("a/y",), 2)], "a/x", 1),
        ([("FromClaim", ("a/x",), 1)], "a", None),
        ([("FromClaim", ("a",), 1), ("FromClaim", (), 2)], "a", 2),
    ],
)
def test_the_claim_has_priority_over_the_class_and_later_entries_over_earlier_ones(
    entries: list[Any], request_: str, wins: int | None
) -> None:
    assert effective([entry(*values) for values in entries], request_, "gpu-0") == wins


def test_a_claim_can_have_several_kinds_of_devices() -> None:
    entries = [entry("FromClaim", (), 5), entry("FromClaim", (), 7, "PartConfig")]
    assert effective(entries, "a", "gpu-0") == 5
    assert effective(entries, "a", "part-0") == 7


def test_parameters_that_name_a_request_must_apply_to_its_device() -> None:
    with pytest.raises(
        ClaimError, match=r"config\[0\] \(of the claim\): PartConfig does not apply to device gpu-0"
    ) as caught:
        effective([entry("FromClaim", ("a",), 7, "PartConfig")], "a", "gpu-0")
    assert caught.value.permanent


def test_parameters_of_other_drivers_are_ignored() -> None:
    assert effective([entry("FromClaim", (), 99, "Nonsense", "other.test")], "a", "gpu-0") is None


def test_parameters_that_are_not_opaque_are_rejected() -> None:
    with pytest.raises(ClaimError, match=r"config\[0\]: expected opaque"):
        configuration.read(FakeParameters(), [DeviceAllocationConfiguration(source="FromClaim")])


def test_validation_errors_have_their_location() -> None:
    with pytest.raises(
        ClaimError, match=r"config\[0\] \(of the device class\): count: expected at most 9, found 10"
    ) as caught:
        effective([entry("FromClass", (), 10)], "a", "gpu-0")
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"shring": {}}, 'shring: unknown field of GpuConfig; did you mean "sharing"?'),
        ({"Count": 1}, 'Count: unknown field of GpuConfig; did you mean "count"?'),
        ({"zzz": 1}, "zzz: unknown field of GpuConfig; its fields are sharing, count, names, fast"),
        (
            {"sharing": {"interval": "long"}},
            'sharing.interval: expected one of "Default", "Long", "Short", found "long"; did you mean "Long"?',
        ),
        ({"sharing": {"memoryLimit": "5Gx"}}, 'sharing.memoryLimit: expected a quantity such as "512Mi", found "5Gx"'),
        ({"sharing": {"limits": {"0": True}}}, 'sharing.limits["0"]: expected a quantity such as "512Mi", found true'),
        ({"sharing": []}, "sharing: expected an object, found []"),
        ({"count": "2"}, 'count: expected a whole number, found "2"'),
        ({"count": True}, "count: expected a whole number, found true"),
        ({"fast": 1}, "fast: expected true or false, found 1"),
        ({"names": ["a", 2]}, "names[1]: expected a string, found 2"),
        ({"names": "a"}, 'names: expected a list, found "a"'),
        ({"count": "2", "x": 1}, 'count: expected a whole number, found "2"; x: unknown field of GpuConfig'),
    ],
)
def test_errors_have_path_and_remedy(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ClaimError) as caught:
        decode({"apiVersion": "v1", "kind": "GpuConfig", **fields}, CONFIGS)
    assert str(caught.value).startswith(text)
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ([], "parameters: expected an object, found []"),
        ({}, "apiVersion and kind: expected a value, found none; supported: GpuConfig of v1, PartConfig of v1"),
        ({"apiVersion": "v1"}, "kind: expected a value, found none"),
        ({"apiVersion": "v2", "kind": "GpuConfig"}, 'apiVersion: expected "v1" for kind GpuConfig, found "v2"'),
        ({"apiVersion": "v1", "kind": "GpuConfg"}, 'kind: unknown kind "GpuConfg" of "v1"; supported:'),
        ({"apiVersion": 1, "kind": ["x"]}, 'kind: unknown kind ["x"] of 1'),
    ],
)
def test_errors_for_unknown_kinds_list_the_known_ones(parameters: Any, text: str) -> None:
    with pytest.raises(ClaimError) as caught:
        decode(parameters, CONFIGS)
    assert str(caught.value).startswith(text)


def test_valid_parameters_are_decoded() -> None:
    tree = {
        "apiVersion": "v1", "kind": "GpuConfig", "names": ["a"], "fast": True,
        "sharing": {"interval": "Long", "memoryLimit": "5Gi", "limits": {"0": 7}},
    }  # fmt: skip
    value = decode(tree, CONFIGS)
    sharing = Slices("Long", Quantity.parse("5Gi"), {"0": Quantity.of_int(7)})
    assert value == GpuConfig(sharing, 1, ("a",), True)
    assert decode({"apiVersion": "v1", "kind": "GpuConfig", "sharing": None}, CONFIGS) == GpuConfig()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["sharing", "count", "interval", "limits", "names", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_parameters_are_decoded_or_rejected(tree: Any) -> None:
    parameters = {**tree, "apiVersion": "v1", "kind": "GpuConfig"} if isinstance(tree, dict) else tree
    try:
        decoded: Any = decode(parameters, CONFIGS)
    except ClaimError as error:
        decoded = str(error)
    assert ": " in decoded if isinstance(decoded, str) else isinstance(decoded, GpuConfig)
