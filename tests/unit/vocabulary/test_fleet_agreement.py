"""The vocabulary matches the devices of the hardware profiles: names, kinds and presence."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pytest

from allotment.fleet import CLASSES, accelerators, hardware, parse_mode, slices_of
from allotment.fleet.device_classes import AMD_WHOLE_GPU
from allotment.fleet.modes import MAX_VIRTUAL_FUNCTIONS
from allotment.fleet.nvidia import COMPUTE_DOMAIN_DRIVER, domain_devices
from allotment.fleet.profiles import Accelerator
from allotment.model.resource import Device
from allotment.vocabulary import Vocabulary, drivers, vocabulary


def _modes(model: Accelerator) -> Iterator[str]:
    if model.vendor == "nvidia":
        yield from ("full", "shared", "consumable-shares=memory", "consumable-shares=unlimited", "vfio")
        yield "consumable-shares=4"
        if model.mig is not None:
            yield "dynamic-mig"
            yield from (f"static-mig={profile.name}:1" for profile in model.mig.profiles)
    elif model.vendor == "amd":
        yield from (f"{p.compute}-{p.memory}" for p in model.partitions)
        yield from ("", "vfio", *(("auto", f"vfio={MAX_VIRTUAL_FUNCTIONS}") if model.partitions else ()))
    else:
        yield from ("", "shared", "partitions=4+status", "binding+nics=2+numa=2", "partitions=2+shared")


def _old_modes(model: Accelerator) -> Iterator[str]:
    """The modes that AMD's driver of 2025 published."""
    if model.vendor == "amd":
        yield from (f"{p.compute}-{p.memory}@v0" for p in model.partitions)


@cache
def _published(old: bool) -> dict[str, list[Device]]:
    """Devices of every profile in every mode, by driver."""
    found: dict[str, list[Device]] = defaultdict(list)
    for model in accelerators().values():
        machine = hardware(model.id)
        for mode in _old_modes(model) if old else _modes(model):
            for published in slices_of(machine, parse_mode(mode, machine), "node"):
                found[published.spec.driver].extend(published.spec.devices or ())
    if not old:
        found[COMPUTE_DOMAIN_DRIVER].extend(domain_devices())
    return found


def _words(driver: str, old: bool) -> Vocabulary:
    words = vocabulary(driver, "v0" if old else "")
    assert words is not None
    return words


def _type(device: Device, words: Vocabulary) -> str:
    typed = device.attributes.get("type")
    return typed.string or "" if typed is not None and words.attribute(words.driver, "type") is not None else ""


def _full(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


ALL = [(False, d) for d in sorted(_published(False))] + [(True, "gpu.amd.com")]


@pytest.mark.parametrize(("old", "driver"), ALL)
def test_every_published_name_is_known_with_its_kind_and_type(old: bool, driver: str) -> None:
    words = _words(driver, old)
    types = {type_.name for type_ in words.types}
    for device in _published(old)[driver]:
        assert _type(device, words) in types
        for name, value in device.attributes.items():
            term = words.attributes_by_name[_full(driver, name)]
            assert getattr(value, {"int": "int_", "bool": "bool_"}.get(term.kind, term.kind)) is not None, name
            assert _type(device, words) in term.on, (device.name, name)
            if term.closed:
                assert value.string in term.values
        for name, amount in device.capacity.items():
            capacity = words.capacities_by_name[_full(driver, name)]
            assert _type(device, words) in capacity.on, (device.name, name)
            assert capacity.consumable or amount.request_policy is None, (device.name, name)


@pytest.mark.parametrize(("old", "driver"), ALL)
def test_attributes_marked_always_are_on_every_device(old: bool, driver: str) -> None:
    words = _words(driver, old)
    for device in _published(old)[driver]:
        kind = _type(device, words)
        published = {_full(driver, name) for name in (*device.attributes, *device.capacity)}
        always = {term.name for term in words.terms if term.on.get(kind) == "always"}
        assert always <= published, device.name


@pytest.mark.parametrize(("old", "driver"), ALL)
def test_attributes_marked_sometimes_are_missing_on_some_devices(old: bool, driver: str) -> None:
    """A name that all profiles have would be marked `always`; two depend on the machine, which profiles describe."""
    words = _words(driver, old)
    everywhere = {"numaNode", "pcieRoot"}
    if driver == "gpu.amd.com":  # GPUs for virtual machines have figures only for known models
        everywhere |= {"memory", "computeUnits", "simdUnits"}
    for term in words.terms:
        for kind, presence in term.on.items():
            devices = [d for d in _published(old)[driver] if _type(d, words) == kind]
            if presence == "sometimes" and term.name.rpartition("/")[2] not in everywhere:
                names = ({_full(driver, n) for n in (*d.attributes, *d.capacity)} for d in devices)
                assert not all(term.name in published for published in names), (term.name, kind)


@pytest.mark.parametrize(("old", "driver"), ALL)
def test_values_that_depend_on_hardware_match_the_hardware_profiles(old: bool, driver: str) -> None:
    words = _words(driver, old)
    for device in _published(old)[driver]:
        for name in ("productName", "profile", "partitionProfile", "computePartition", "architecture", "brand"):
            if name in device.attributes:
                assert device.attributes[name].string in words.attributes_by_name[f"{driver}/{name}"].values


def test_classes_match_the_installed_ones() -> None:
    installed = {
        device_class.metadata.name: device_class
        for vendor in CLASSES.values()
        for device_class in (*vendor, AMD_WHOLE_GPU)
    }
    described = {term.name: term for driver in _published(False) for term in _words(driver, False).classes}
    assert set(described) == set(installed)
    for name, device_class in installed.items():
        # Whether Kubernetes' example has an extended resource is a value of its chart.
        if not name.endswith("example.com"):
            assert described[name].extended_resource == (device_class.spec.extended_resource_name or "")


def test_every_simulated_driver_has_a_vocabulary() -> None:
    assert set(_published(False)) <= set(drivers())
