"""Node labels as CEL: an expression selects the GPUs of exactly the nodes that the label selects."""

from __future__ import annotations

import re

import pytest

from allotment.cel import DeviceInput, compile_selector
from allotment.fleet import cluster_of, parse_fleet
from allotment.fleet.gpu_product_labels import (
    known_models,
    labels_of_gpus,
    product_label,
    product_of_label,
    products_of_cloud,
)
from allotment.model.features import Features
from allotment.tools.migrate.label_translation import Devices, describes_gpus, translate_term
from allotment.tools.migrate.plugin_requests import Term

NVIDIA = Devices("nvidia", "gpu.nvidia.com")
AMD = Devices("amd", "gpu.amd.com")
INTEL = Devices("intel", "gpu.intel.com")
FEATURES = Features(kube="1.36")
OPERATORS = ("In", "NotIn", "Gt", "Lt", "Exists")


def gpu_of(model: str) -> DeviceInput:
    """A GPU of a model, as its driver publishes it."""
    spec = cluster_of(parse_fleet([model])).slices[0].spec
    assert spec.devices
    return DeviceInput(spec.driver, spec.devices[0])


#: The labels and a GPU of every known model.
NODES = {
    model.id: (labels_of_gpus(model, 1), gpu_of(model.id))
    for vendor in ("nvidia", "amd")
    for model in known_models(vendor)
}


def demands(term: Term, labels: dict[str, str]) -> bool:
    """Whether a node with these labels meets a requirement, as Kubernetes evaluates it."""
    value = labels.get(term.key)
    match term.operator:
        case "In":
            return value in term.values
        case "NotIn":
            return value not in term.values
        case "Gt":
            return value is not None and int(value) > int(term.values[0])
        case "Lt":
            return value is not None and int(value) < int(term.values[0])
    return value is not None


def selects(expression: str, device: DeviceInput) -> bool:
    """Whether a device is selected; an error of the expression fails the test."""
    return compile_selector(expression, FEATURES).matches(device)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("model", sorted(NODES))
def test_the_expression_selects_what_the_label_selects(model: str, operator: str) -> None:
    own, _ = NODES[model]
    vendor = model.partition("-")[0]
    translations = 0
    for key, value in own.items():
        if operator in ("Gt", "Lt") and not value.isdecimal():
            continue
        term = Term((), key, operator, () if operator == "Exists" else (value,))
        label = translate_term(term, NVIDIA if vendor == "nvidia" else AMD)
        if not label.expression:
            assert label.why
            continue
        translations += 1
        for node_name, (labels, device) in NODES.items():
            if node_name.startswith(vendor):
                assert selects(label.expression, device) == demands(term, labels), (str(term), label, node_name)
    assert translations or operator in ("Exists", "Gt", "Lt")


def test_several_values_are_alternatives() -> None:
    values = ("NVIDIA-H100-80GB-HBM3", "Tesla-T4")
    label = translate_term(Term((), "nvidia.com/gpu.product", "In", values), NVIDIA)
    found = {model for model, (_, device) in NODES.items() if model[0] == "n" and selects(label.expression, device)}
    assert found == {"nvidia-h100-80gb-hbm3", "nvidia-t4-16gb"}


def test_an_unknown_product_is_compared_as_written_in_the_label() -> None:
    label = translate_term(Term((), "nvidia.com/gpu.product", "In", ("NVIDIA-L40", "Tesla-T4")), NVIDIA)
    assert selects(label.expression, NODES["nvidia-t4-16gb"][1])
    assert not selects(label.expression, NODES["nvidia-l4-24gb"][1])


@pytest.mark.parametrize(
    ("key", "value", "models"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-t4", {"nvidia-t4-16gb"}),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb", {"nvidia-h100-80gb-hbm3"}),
        ("karpenter.k8s.aws/instance-gpu-name", "a100", {"nvidia-a100-sxm4-40gb", "nvidia-a100-sxm4-80gb"}),
        ("k8s.amazonaws.com/accelerator", "nvidia-tesla-v100", {"nvidia-v100-sxm2-16gb"}),
        ("gpu.nvidia.com/class", "A100_NVLINK_80GB", {"nvidia-a100-sxm4-80gb"}),
        ("gpu.nvidia.com/model", "L40S", {"nvidia-l40s-48gb"}),
        (
            "gpu.nvidia.com/vram",
            "16",
            {"nvidia-p100-pcie-16gb", "nvidia-t4-16gb", "nvidia-v100-pcie-16gb", "nvidia-v100-sxm2-16gb"},
        ),
    ],
)
def test_labels_of_clouds_name_models(key: str, value: str, models: set[str]) -> None:
    label = translate_term(Term((), key, "In", (value,)), NVIDIA)
    found = {name for name, (_, device) in NODES.items() if name[0] == "n" and selects(label.expression, device)}
    assert found == models


def test_nominal_memory_is_translated_to_the_drivers_figure() -> None:
    # A T4 is sold with 16 GiB and counts 15: "more than 16 GiB" must leave out T4 and V100 and take in an A10G.
    label = translate_term(Term((), "karpenter.k8s.aws/instance-gpu-memory", "Gt", ("16384",)), NVIDIA)
    found = {name for name, (_, device) in NODES.items() if name[0] == "n" and selects(label.expression, device)}
    assert {"nvidia-t4-16gb", "nvidia-v100-sxm2-16gb"} & found == set()
    assert {"nvidia-a10g-24gb", "nvidia-h100-80gb-hbm3"} <= found


@pytest.mark.parametrize(
    ("term", "devices"),
    [
        (Term((), "nvidia.com/gpu.present", "In", ("true",)), NVIDIA),
        (Term((), "nvidia.com/gpu.replicas", "In", ("4",)), NVIDIA),
        (Term((), "nvidia.com/mig.strategy", "In", ("mixed",)), NVIDIA),
        (Term((), "nvidia.com/mig-1g.5gb.count", "Gt", ("0",)), NVIDIA),
        (Term((), "accelerator", "In", ("nvidia",)), NVIDIA),
        (Term((), "kubernetes.azure.com/accelerator", "In", ("nvidia",)), NVIDIA),
        (Term((), "cloud.google.com/gke-accelerator", "Exists", ()), NVIDIA),
        (Term((), "amd.com/gpu.product-name", "Exists", ()), AMD),
        (Term((), "feature.node.kubernetes.io/amd-gpu", "In", ("true",)), AMD),
        (Term((), "intel.feature.node.kubernetes.io/gpu", "In", ("true",)), INTEL),
    ],
)
def test_labels_that_the_request_implies_are_removed(term: Term, devices: Devices) -> None:
    label = translate_term(term, devices)
    assert label.dropped
    assert label.why
    assert not label.expression


@pytest.mark.parametrize(
    ("term", "devices"),
    [
        (Term((), "nvidia.com/gpu.count", "In", ("8",)), NVIDIA),
        (Term((), "nvidia.com/gpu.machine", "In", ("DGX",)), NVIDIA),
        (Term((), "nvidia.com/gpu.product", "Gt", ("3",)), NVIDIA),
        (Term((), "nvidia.com/gpu.product", "DoesNotExist", ()), NVIDIA),
        (Term((), "nvidia.com/gpu.present", "DoesNotExist", ()), NVIDIA),
        (Term((), "nvidia.com/gpu.memory", "In", ("12345",)), NVIDIA),
        (Term((), "nvidia.com/gpu.memory", "In", ("80GB",)), NVIDIA),
        (Term((), "nvidia.com/gpu.family", "In", ("rubin",)), NVIDIA),
        (Term((), "cloud.google.com/gke-accelerator", "In", ("nvidia-next",)), NVIDIA),
        (Term((), "node.kubernetes.io/instance-type", "In", ("p5.48xlarge",)), NVIDIA),
        (Term((), "amd.com/gpu.family", "In", ("AI",)), AMD),
        (Term((), "amd.com/gpu.vram", "In", ("1G",)), AMD),
        (Term((), "gpu.intel.com/product", "In", ("Flex_170",)), INTEL),
    ],
)
def test_labels_without_a_device_attribute_are_kept_with_a_reason(term: Term, devices: Devices) -> None:
    label = translate_term(term, devices)
    assert (label.expression, label.dropped) == ("", False)
    assert label.why


def test_memory_of_a_mig_device_is_that_of_its_profile() -> None:
    pieces = NVIDIA._replace(pieces=True)
    assert not translate_term(Term((), "nvidia.com/gpu.memory", "Gt", ("40000",)), pieces).expression
    assert "productName" in translate_term(Term((), "nvidia.com/gpu.memory", "In", ("40960",)), pieces).expression


def test_other_labels_are_not_translated() -> None:
    assert not describes_gpus(Term((), "topology.kubernetes.io/zone", "In", ("a",)))
    assert translate_term(Term((), "topology.kubernetes.io/zone", "In", ("a",)), NVIDIA).why == ""


@pytest.mark.parametrize("model", [model.id for model in known_models("nvidia")])
def test_products_survive_conversion_to_labels_and_back(model: str) -> None:
    product = next(known.product for known in known_models("nvidia") if known.id == model)
    value = product_label(product)
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", value)
    for shown in (value, f"{value}-SHARED", f"{value}-MIG-1g.5gb"):
        assert product_of_label(shown) == (product, True)


def test_unknown_cloud_names_match_no_model() -> None:
    assert products_of_cloud("nvidia-next") == ()
