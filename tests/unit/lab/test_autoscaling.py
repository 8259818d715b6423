"""Autoscaler options of a lab, as library users specify them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from allotment.fleet.catalog import catalog
from allotment.lab.autoscaling import Autoscale, CatalogError, autoscale_of, types_of


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
    with pytest.raises(CatalogError, match="invalid rows: 1") as caught:
        types_of([str(prices)])
    assert len(caught.value.problems) == 1
    with pytest.raises(CatalogError, match="'awz' is neither a file nor a known provider"):
        types_of(["awz"])


def test_options_can_be_text_or_values() -> None:
    found = autoscale_of("aws", ["*=slow:9"])
    assert found is not None
    assert found.vendors == ("nvidia",)
    assert found.faults[0].kind == "slow"
    full = Autoscale(types_of(["gcp"]))
    assert autoscale_of(full) is full
    assert autoscale_of(None) is None
