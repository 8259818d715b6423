"""Property tests of validation: every object that decodes is validated, and valid objects stay valid."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allotment.model.defaults import with_defaults
from allotment.model.features import GATES, Features
from allotment.model.fields import TypeShape, shape_of
from allotment.model.meta import Object
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from allotment.model.strict_decoding import strict_decode as strict_check
from allotment.model.trees import to_tree, to_value
from allotment.model.validation import admission
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import invalid_status
from allotment.model.versions import from_v1, to_v1
from tests.unit.model.complete import META, SPECS
from tests.unit.model.validation.validating import CONTEXT, CONTEXT_1_37, NOW, check, check_derived


class Resource(NamedTuple):
    """A kind, its scope and its served versions."""

    type: type[Object]
    namespaced: bool = False
    versions: tuple[str, ...] = ("v1", "v1beta2", "v1beta1")

    @property
    def kind(self) -> str:
        return self.type.__name__


RESOURCES = {
    "deviceclasses": Resource(DeviceClass),
    "resourceclaims": Resource(ResourceClaim, namespaced=True),
    "resourceclaimtemplates": Resource(ResourceClaimTemplate, namespaced=True),
    "resourceslices": Resource(ResourceSlice),
    "devicetaintrules": Resource(DeviceTaintRule, versions=("v1", "v1beta2", "v1alpha3")),
    "resourcepoolstatusrequests": Resource(ResourcePoolStatusRequest, versions=("v1alpha3",)),
}
SERVED = [(plural, version) for plural, resource in RESOURCES.items() for version in resource.versions]


def contexts(kube: str) -> st.SearchStrategy[ValidationContext]:
    """A release with any gates."""
    gates = st.sampled_from(sorted(gate for gate in GATES if kube in GATES[gate]))
    return st.dictionaries(gates, st.booleans()).map(
        lambda chosen: ValidationContext(Features(kube, chosen), check, check_derived)
    )


FEATURES = contexts("1.36") | contexts("1.37")
ALL_ON = {"1.36": CONTEXT, "1.37": CONTEXT_1_37}

_WORDS = ("", "a", "A b", "a/b", "d.io/x", "ExactCount", "All", "Exists", "NoSchedule", "FromClass", "dear", "x" * 300)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(_WORDS) | st.text(max_size=8),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.sampled_from((0, 1, -1, 2**63 - 1, -(2**63))),
    "Quantity": st.sampled_from(("0", "1", "-1", "1Gi", "1500m", "1e30")),
    "Time": st.sampled_from((NOW, "2020-02-29T00:00:00Z")),
    "RawExtension": st.sampled_from((None, {}, {"a": 1}, [], "x", 1)),
    "FieldsV1": st.just({}),
}


@st.composite
def trees(draw: st.DrawFn, shape: TypeShape, depth: int = 0) -> Any:
    """Any tree that decodes as the type."""
    if shape.form == "struct":
        names = draw(st.sets(st.sampled_from(sorted(shape.fields)), max_size=6 if depth < 5 else 2))
        if depth < 4:  # deep enough to reach the validated fields
            names |= {"metadata", "spec", "devices", "requests", "exactly", "basic", "pool"} & shape.fields.keys()
        return {name: draw(trees(shape.fields[name].shape, depth + 1)) for name in sorted(names)}
    if shape.form in ("slice", "map"):
        assert shape.element is not None
        items = st.lists(trees(shape.element, depth + 1), max_size=2)
        if shape.form == "slice":
            return draw(items)
        return dict(zip(draw(st.lists(st.sampled_from(_WORDS), max_size=2)), draw(items), strict=False))
    return draw(_VALUES[shape.form])


def shape(plural: str, version: str) -> TypeShape:
    found = shape_of(f"resource.k8s.io/{version}", RESOURCES[plural].kind)
    assert found is not None
    return found


def decoded(tree: Any, plural: str, version: str) -> Any:
    api_version, kind = f"resource.k8s.io/{version}", RESOURCES[plural].kind
    cleaned = strict_check(tree, api_version, kind, shape(plural, version)).tree
    return to_value(to_v1({**cleaned, "apiVersion": api_version, "kind": kind}), RESOURCES[plural].type)


@pytest.mark.parametrize(("plural", "version"), SERVED)
@settings(max_examples=20)
@given(data=st.data(), context=FEATURES)
def test_every_object_is_validated(plural: str, version: str, data: st.DataObject, context: ValidationContext) -> None:
    new, old = (decoded(data.draw(trees(shape(plural, version))), plural, version) for _ in range(2))
    outcomes = [
        admission.create(new, context, version=version, now=NOW),
        admission.update(new, old, context, version=version, now=NOW),
    ]
    if admission.VALIDATORS[RESOURCES[plural].type].status_update:
        outcomes.append(admission.update_status(new, old, context, version=version, now=NOW))
    for outcome in outcomes:
        from_v1(to_tree(outcome.value), f"resource.k8s.io/{version}")
        if outcome.errors:
            status = invalid_status("resource.k8s.io", RESOURCES[plural].kind, "x", outcome.errors)
            assert len(status["details"]["causes"]) == len(outcome.errors)


@st.composite
def subtrees(draw: st.DrawFn, tree: Any, chance: int = 8) -> Any:
    """A tree without some of its branches; most of these trees are valid."""
    if isinstance(tree, dict):
        return {
            name: draw(subtrees(branch, chance))
            for name, branch in tree.items()
            if draw(st.integers(0, chance)) < chance
        }
    return [draw(subtrees(item, chance)) for item in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("kube", ALL_ON)
@pytest.mark.parametrize(("plural", "spec"), SPECS)
def test_complete_objects_are_valid(plural: str, spec: dict[str, Any], kube: str) -> None:
    assert create({"metadata": META, "spec": spec}, plural, ALL_ON[kube]).errors == []


@pytest.mark.parametrize("kube", ALL_ON)
@pytest.mark.parametrize(("plural", "spec"), SPECS)
@settings(max_examples=10)
@given(data=st.data())
def test_valid_objects_stay_valid_after_conversion_and_defaulting(
    plural: str, spec: dict[str, Any], kube: str, data: st.DataObject
) -> None:
    context = ALL_ON[kube]
    first = create({"metadata": META, "spec": data.draw(subtrees(spec, 30))}, plural, context)
    assume(not first.errors)
    for version in RESOURCES[plural].versions:
        api_version = f"resource.k8s.io/{version}"
        back = from_v1(to_tree(first.value, api_version, RESOURCES[plural].kind), api_version)
        again = decoded(back, plural, version)
        assert again == first.value
        assert with_defaults(again, version=version, now="later") == again, "defaults are set already"
        assert admission.create(again, context, version=version, now="later").errors == []


@pytest.mark.parametrize(("plural", "spec"), SPECS)
@settings(max_examples=10)
@given(data=st.data(), context=contexts("1.37"))
def test_an_unchanged_object_stays_valid_with_any_gates(
    plural: str, spec: dict[str, Any], data: st.DataObject, context: ValidationContext
) -> None:
    """Fields of features that were turned off are kept while the stored object uses them."""
    meta = META | {"resourceVersion": "1"}
    stored = create({"metadata": meta, "spec": data.draw(subtrees(spec, 30))}, plural, CONTEXT_1_37)
    assume(not stored.errors)
    result = admission.update(stored.value, stored.value, context, version=RESOURCES[plural].versions[0], now="later")
    assert result.errors == []
    assert result.value == stored.value


def create(tree: dict[str, Any], plural: str, context: ValidationContext) -> admission.AdmissionResult:
    """Create an object that is given in the first version of its resource."""
    if RESOURCES[plural].namespaced:
        tree = tree | {"metadata": tree["metadata"] | {"namespace": "n"}}
    version = RESOURCES[plural].versions[0]
    return admission.create(decoded(tree, plural, version), context, version=version, now=NOW)
