"""Rules for nodes that state devices, moved into claims; products may be misspelled."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.moved_rules import MovedRules
from allotment.model.core import Pod, PodSpec
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.resource import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec

DRIVER = "gpu.nvidia.com"
PRODUCTS = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "Tesla T4")
REMOVED = SuggestedChange(
    text="remove the nodeSelector, which loses the product", object="Pod ml/p", path="spec.nodeSelector", node="a",
    remedy="unselect-hardware",
)  # fmt: skip
PLAIN = Pod(metadata=ObjectMeta(name="p", namespace="ml"), spec=PodSpec())


def moved(product: str, *, is_own: bool = True) -> MovedRules:
    """The rules of a pod that names a product by a label."""
    exactly = ExactDeviceRequest(device_class_name=DRIVER)
    claim = ResourceClaim(
        metadata=ObjectMeta(name="gpu", namespace="ml"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),))),
    )
    pod = Pod(metadata=PLAIN.metadata, spec=PodSpec(node_selector={"nvidia.com/gpu.product": product}))
    templates = {ObjectKey("ml", "gpu"): "template"}
    return MovedRules(pod, (claim,), templates, lambda name: name, lambda name: is_own, lambda: PRODUCTS)


def conditions(rules: MovedRules) -> list[str]:
    """The conditions of the claim for nodes without the label."""
    (claim,) = rules.claims(PLAIN)
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    return [selector.cel.expression for selector in exactly.selectors if selector.cel is not None]


@pytest.mark.parametrize(
    ("product", "condition"),
    [
        ("NVIDIA-A100-SXM4-80GB", '== "NVIDIA A100-SXM4-80GB"'),
        ("NVIDIA-A100-SXM4-40G", '== "NVIDIA A100-SXM4-40GB"'),
        ("NVIDIA-A100", 'in ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"]'),
    ],
)
def test_a_product_means_the_published_ones_with_its_words(product: str, condition: str) -> None:
    assert conditions(moved(product)) == [f'device.attributes["{DRIVER}"].productName {condition}']
    removed, change = moved(product).changes((REMOVED,), PLAIN)
    assert (removed.text, removed.remedy) == ("remove the nodeSelector", "select")
    assert (change.object, change.node) == ("ResourceClaimTemplate ml/template", "a")


def test_a_product_that_is_similar_to_no_published_one_is_not_moved() -> None:
    rules = moved("a-card-that-nobody-sells")
    assert conditions(rules) == []
    assert rules.changes((REMOVED,), PLAIN) == (REMOVED,)


def test_a_claim_that_others_use_too_is_not_changed() -> None:
    assert moved("NVIDIA-A100-SXM4-80GB", is_own=False).changes((REMOVED,), PLAIN) == (REMOVED,)


def test_a_pod_that_keeps_its_rules_has_the_same_claims() -> None:
    rules = moved("NVIDIA-A100-SXM4-80GB")
    assert rules.claims(rules.pod) is rules.pending
