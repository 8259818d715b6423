"""Selectors that read attributes and capacities in a way that cannot be meant: the published names correct them."""

from __future__ import annotations

import pytest

from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.engine.diagnosis.published_names import published_names
from allotment.engine.diagnosis.selector_corrections import selector_corrections
from tests.unit.engine import objects

CARD = objects.device("gpu-0", "80Gi", productName="NVIDIA A100 80GB PCIe", architecture="Ampere", numaNode=0)
ATTRIBUTES = f'device.attributes["{objects.DRIVER}"]'
PRODUCT = f"{ATTRIBUTES}.productName == 'NVIDIA A100 80GB PCIe'"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f'device.capacity["{objects.DRIVER}"].productName == "x"', f'{ATTRIBUTES}.productName == "x"'),
        (f'device.capacity["{objects.DRIVER}"].product_name == "x"', f'{ATTRIBUTES}.productName == "x"'),
        ('device.attributes.productName == "x"', f'{ATTRIBUTES}.productName == "x"'),
        ('device.attributes.product_name == "x"', f'{ATTRIBUTES}.productName == "x"'),
        ('device.attributes["architecture"].string == "x y"', f'{ATTRIBUTES}.architecture == "x y"'),
        (
            f'device.attributes["{objects.DRIVER}"].memory >= 40',
            f'device.capacity["{objects.DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
        ),
    ],
)
def test_the_published_name_and_its_map_are_read(wrong: str, right: str) -> None:
    names = published_names([objects.slice_of(CARD)])
    assert next(selector_corrections(wrong, names)).expression == right


@pytest.mark.parametrize("written", ["device.attributes.productName.string", "device.attributes.productNmae.string"])
@pytest.mark.parametrize("more", ["", f"{ATTRIBUTES}.numaNode == 0"])
def test_an_accessor_behind_a_name_without_domain_keeps_the_condition(written: str, more: str) -> None:
    """It compiles, because the name is read as the domain and the accessor as the name."""
    inventory = objects.inventory(objects.slice_of(CARD))
    wrong = " && ".join(filter(None, (f"{written} == 'NVIDIA A100 80GB PCIe'", more)))
    refused = diagnose(inventory, [objects.claim(objects.request(1, wrong))]).headline
    assert refused.code == "unknown-driver"
    assert refused.summary.endswith(f"{ATTRIBUTES}.productName")
    (change,) = refused.changes
    assert change.becomes == " && ".join(filter(None, (PRODUCT, more)))
