"""Objects that do not change between explanations are validated once."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.explanation.input import AdmittedObjects, sort_objects
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.features import Features
from allotment.model.resource import Device

FEATURES = Features("1.36")
MACHINES = cluster_of(parse_fleet(["t4"]), "1.36")


def test_an_unchanged_object_is_validated_once() -> None:
    values, admitted = (*MACHINES.nodes, *MACHINES.slices, *MACHINES.classes), AdmittedObjects(FEATURES)
    first, again = (sort_objects(values, FEATURES, admitted=admitted) for _ in range(2))
    assert first.slices
    assert all(one is other for one, other in zip(first.slices, again.slices, strict=True))
    assert all(first.classes[name] is again.classes[name] for name in first.classes)
    assert sort_objects(values, FEATURES).slices == first.slices


def test_an_error_is_reported_each_time() -> None:
    (good, *_), twice = MACHINES.slices, Device(name="gpu-0")
    wrong = replace(good, spec=replace(good.spec, devices=(twice, twice)))
    admitted = AdmittedObjects(FEATURES)
    for _ in range(2):
        assert list(sort_objects([wrong], FEATURES, admitted=admitted).refused) == [("ResourceSlice", wrong.key)]


def test_an_object_with_the_same_name_and_other_content_is_validated_again() -> None:
    (good, *_), twice = MACHINES.slices, Device(name="gpu-0")
    admitted = AdmittedObjects(FEATURES)
    assert not sort_objects([good], FEATURES, admitted=admitted).refused
    wrong = replace(good, spec=replace(good.spec, devices=(twice, twice)))
    assert sort_objects([wrong], FEATURES, admitted=admitted).refused
