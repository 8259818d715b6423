"""Autoscaler options of a lab, as library users specify them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from allotment.errors import InputError, InvalidManifests
from allotment.fleet.catalog import catalog
from allotment.lab.autoscaling import Autoscale, autoscale_of, types_of


def test_a_catalog_combines_providers_and_files(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("provider,instance_type,on_demand_usd_per_hour\naws,g5.xlarge,0.5\n")
    assert types_of([]) == catalog()
    assert {instance.provider for instance in types_of(["gcp", "aws"])} == {"aws", "gcp"}
    own = {instance.key: instance for instance in types_of(["aws", str(prices)])}
    assert own["aws/g5.xlarge"].price("on-demand") == Decimal("0.5")
    assert own["aws/g5.xlarge"].gpus == 1
    assert own["aws/g5.2xlarge"].price("on-demand") == Decimal("1.212")


def test_invalid_options_are_rejected(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("provider,instance_type,on_demand_usd_per_hour\naws,g5.xlarge,-3\n")
    with pytest.raises(InvalidManifests, match=r"prices\.csv:2:15: on_demand_usd_per_hour: expected USD per hour"):
        types_of([str(prices)])
    with pytest.raises(InputError, match=r"^autoscale: 'awz' is neither a provider nor a file; did you mean aws\?$"):
        types_of(["awz"])
    prices.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"prices\.csv: expected a CSV file in UTF-8$"):
        types_of([str(prices)])


def test_options_can_be_text_or_values() -> None:
    found = autoscale_of("aws", ["*=slow:9"])
    assert found is not None
    assert found.vendors == ("nvidia",)
    assert found.faults[0].kind == "slow"
    several = autoscale_of("aws", "*=slow:9,*=lost")
    assert several is not None
    assert [fault.kind for fault in several.faults] == ["slow", "lost"]
    full = Autoscale(types_of(["gcp"]))
    assert autoscale_of(full) is full
    assert autoscale_of(None) is None
