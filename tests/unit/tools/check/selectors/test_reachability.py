"""The devices that reach an expression, and the accesses that fail for some of them."""

from __future__ import annotations

import pytest

from allotment.tools.check.bundle import Bundle
from allotment.tools.check.selectors.expressions import parse_selector
from allotment.tools.check.selectors.reachability import (
    candidate_drivers,
    categories_reaching,
    reaching_categories,
    unguarded_accesses,
)
from allotment.tools.views import SelectorView
from tests.unit.tools.check.bundles import bundle_of

_CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: mine
spec:
  selectors:
"""
_CLAIM = """apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: mine
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: {}
        selectors:
"""


def _selector(expression: str) -> str:
    return "    - cel:\n        expression: |-\n          " + expression.replace("\n", "\n          ") + "\n"


def _of_class(*expressions: str) -> tuple[Bundle, SelectorView]:
    bundle = bundle_of(_CLASS + "".join(map(_selector, expressions)))
    return bundle, bundle.selectors[-1]


def _of_request(class_name: str, *expressions: str, more: str = "") -> tuple[Bundle, SelectorView]:
    selectors = "".join(map(_selector, expressions)).replace("\n", "\n    ").rstrip(" ")
    bundle = bundle_of(more + _CLAIM.format(class_name) + "    " + selectors)
    return bundle, bundle.selectors[-1]


def _unguarded(bundle: Bundle, view: SelectorView) -> list[tuple[str, list[str]]]:
    return [
        (missing.access.name, [s.type or s.driver for s in missing.categories])
        for missing in unguarded_accesses(bundle, view)
    ]


N = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("guarded", "unguarded"),
    [
        (f'device.driver == "gpu.nvidia.com" && {N}.productName == "x"', f'{N}.productName == "x"'),
        # A false operand of && absorbs an error on its left.
        (f'{N}.productName == "x" && device.driver == "gpu.nvidia.com"', f'{N}.productName == "x" && true'),
        (f'"productName" in {N} && {N}.productName == "x"', f'"a" in device.attributes["b.c"] && {N}.uuid == "x"'),
        (f'has({N}.productName) && {N}.productName == "x"', f'has({N}.uuid) || {N}.productName == "x"'),
        (f'{N}.?productName.orValue("") == "x"', f'{N}.?productName.orValue({N}.uuid) == "x"'),
        (f'device.driver != "gpu.nvidia.com" || {N}.type == "x"', f'device.driver == "a.b" || {N}.type == "x"'),
        (f'device.driver in ["gpu.nvidia.com"] && {N}.type == "gpu"', f'device.driver in ["a.b"] || {N}.type == "gpu"'),
        (f'device.driver == "gpu.nvidia.com" ? {N}.type == "gpu" : false', f'{N}.type == "gpu" ? true : false'),
        (f'"gpu.nvidia.com" in device.attributes && {N}.type == ""', f'has(device.attributes.x.y) || {N}.type == ""'),
        (f'!(device.driver != "gpu.nvidia.com") && {N}.type == "gpu"', f'!({N}.type == "gpu")'),
    ],
)  # fmt: skip
def test_other_drivers_reach_a_class_without_guard(guarded: str, unguarded: str) -> None:
    bundle, view = _of_class(guarded)
    assert _unguarded(bundle, view) == []
    bundle, view = _of_class(unguarded)
    assert {"", "b.c"} & {sort.driver for lack in unguarded_accesses(bundle, view) for sort in lack.categories}


def test_types_of_a_class_that_lack_a_name() -> None:
    driver = 'device.driver == "gpu.nvidia.com"'
    assert _unguarded(*_of_class(f'{driver} && {C}.memory.compareTo(quantity("40Gi")) >= 0')) == []
    shares = f'{C}.decoders.compareTo(quantity("1")) >= 0'
    assert _unguarded(*_of_class(f"{driver} && {shares}")) == [("decoders", ["gpu"])]
    # GPUs for virtual machines only exist if an expression mentions their type.
    wanted = f'{N}.type != "vfio" || {C}.memory != quantity("1Gi")'
    assert _unguarded(*_of_class(driver, wanted)) == [("memory", ["vfio"])]
    assert _unguarded(*_of_class(f'{driver} && {N}.type == "gpu" && {C}.memory.isGreaterThan(quantity("1Gi"))')) == []
    assert _unguarded(*_of_class(f'{driver} && {N}.type in ["gpu", "mig"] && {C}.memory != quantity("1Gi")')) == []
    assert _unguarded(*_of_class(driver, f'{N}.type == "mig"', f'{N}.profile == "1g.5gb"')) == []
    assert _unguarded(*_of_class(driver, f'{N}.profile == "1g.5gb"')) == [("profile", ["gpu"])]


def test_names_that_some_devices_of_a_type_have() -> None:
    bundle, view = _of_request("gpu.nvidia.com", f'{N}.addressingMode == "HMM"')
    (lack,) = unguarded_accesses(bundle, view)
    assert lack.is_sometimes
    assert [str(sort) for sort in lack.categories] == ["a gpu.nvidia.com device of type gpu"]
    assert _unguarded(*_of_request("gpu.nvidia.com", f'{N}.?addressingMode.orValue("") == "HMM"')) == []
    assert _unguarded(*_of_request("gpu.nvidia.com", f'{N}.addressingMode == "HMM" && "addressingMode" in {N}')) == []
    assert _unguarded(*_of_request("gpu.nvidia.com", f'{N}.addressingMode == "HMM" || true')) == []


def test_only_devices_of_the_class_reach_a_request() -> None:
    assert _unguarded(*_of_request("gpu.nvidia.com", f'{N}.productName == "x"')) == []
    assert _unguarded(*_of_request("mig.nvidia.com", f'{N}.profile == "1g.5gb"')) == []
    assert _unguarded(*_of_request("gpu.nvidia.com", f'{N}.profile == "1g.5gb"')) == [("profile", ["gpu"])]
    assert _unguarded(*_of_request("nobody-knows", f'{N}.profile == "1g.5gb"')) == []
    own = _CLASS + _selector('device.driver == "gpu.nvidia.com"') + "---\n"
    assert _unguarded(*_of_request("mine", f'{N}.profile == "1g.5gb"', more=own)) == [("profile", ["gpu"])]
    broken = _CLASS + _selector("device.driver = ") + "---\n"
    assert _unguarded(*_of_request("mine", f'{N}.profile == "1g.5gb"', more=broken)) == []
    unmended = _CLASS + _selector(f'device.driver == "gpu.nvidia.com" && {C}.memory >= quantity("1Gi")') + "---\n"
    assert _unguarded(*_of_request("mine", f'{N}.uuid == "x"', more=unmended)) == [("uuid", ["mig"])]


def test_unpublished_names_are_left_to_another_rule() -> None:
    assert _unguarded(*_of_class(f'{N}.model == "x"')) == []
    assert _unguarded(*_of_class('device.attributes["model"].string == "x"')) == []
    assert _unguarded(*_of_class('device.attributes["gpu.acme.example"].model == "x"')) == [("model", [""])]


def test_categories_reaching_an_access() -> None:
    bundle, view = _of_class(f'device.driver == "gpu.nvidia.com" && {N}.type == "mig" && {N}.profile == "x"')
    access = parse_selector(bundle, view).accesses[-1]
    assert [s.type for s in categories_reaching(bundle, view, access) or ()] == ["mig"]
    assert reaching_categories(*_of_request("nobody-knows", "true")) is None


@pytest.mark.parametrize(
    ("source", "drivers"),
    [
        ('device.driver == "gpu.nvidia.com" && device.attributes["model"].string == "x"', ("gpu.nvidia.com",)),
        ('device.attributes["model"].string == "x"', ()),
        ('device.driver == "nvidia.com"', ("nvidia.com",)),
        ('device.driver in ["gpu.nvidia.com", "gpu.amd.com"]', ("gpu.nvidia.com", "gpu.amd.com")),
    ],
)
def test_candidate_drivers(source: str, drivers: tuple[str, ...]) -> None:
    assert candidate_drivers(*_of_class(source)) == drivers
