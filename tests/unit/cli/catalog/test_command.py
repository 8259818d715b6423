"""The catalog of instance types and their slices, as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from allotment.fleet.catalog import catalog, read_catalog
from tests.unit.cli.conftest import Allot

COLUMNS = "provider,instance_type,region,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's catalog: a machine, and an invalid row."""
    path = tmp_path / "own.csv"
    path.write_text(f"{COLUMNS}\nus,rack,cellar,64,512,8,l40s,2.5\nus,bad,cellar,64,512,8,l40s,-1\n")
    return path


def names(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()[1:] if "/" in line.split(" ")[0]]


def test_without_arguments_all_usable_types_are_listed_cheapest_first(allot: Allot) -> None:
    ran = allot("catalog")
    assert ran.code == 0
    assert ran.out == allot("catalog", "list").out
    assert set(names(ran.out)) == {instance.key for instance in catalog() if not instance.unusable}
    assert ran.out.splitlines()[0].split() == ["NAME", "GPUS", "GPU", "MEMORY", "CPU", "RAM", "USD/H", "SPOT", "AS-OF"]
    prices = [line.split()[-3] for line in ran.out.splitlines()[1:] if "/" in line.split(" ")[0]]
    known = [float(price) for price in prices if price != "?"]
    assert known == sorted(known)
    assert "26 more types cannot be used in plans (--all also lists these, with reasons)." in ran.out


def test_lists_fit_80_columns(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["list"], ["list", "azure"], ["list", "--all"], ["show", "aws/p5.48xlarge"]):
        out = allot("catalog", *words).out
        assert max(map(len, out.splitlines())) <= 80
    assert "Columns that do not fit: SPOT, CPU, RAM, AS-OF (-o wide shows them)." in allot("catalog").out


def test_prices_of_the_documented_examples(allot: Allot) -> None:
    """Ampere with more than 20Gi: cheapest on A10G at AWS, on A100 at GCP, on A6000 at Lambda."""
    for provider, name in [("aws", "aws/g5.xlarge"), ("gcp", "gcp/a2-highgpu-1g"), ("lambda", "lambda/gpu_1x_a6000")]:
        out = allot("catalog", "list", "--provider", provider, "--memory", ">=20Gi", "-o", "json").out
        types = json.loads(out)["instanceTypes"]
        ampere = [type_ for type_ in types if "A10" in type_["productName"] or "A6000" in type_["productName"]]
        assert ampere[0]["name"] == name


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--gpu", "h100"], {"h100", "h100-nvl", "h100-pcie"}),
        (["--gpu", "H100 NVL"], {"h100-nvl"}),
        (["--gpu", "l4"], {"l4"}),
        (["--gpu", "a100-40gb"], {"a100-40gb"}),
        (["--memory", "80Gi", "--provider", "aws"], {"a100-80gb", "h200", "b200", "b300", "rtx-pro-6000"}),
        (["--mig", "--max-price", "4", "--provider", "gcp"], {"a100-40gb"}),
        (["--spot", "--provider", "aws,coreweave"], {"b200"}),
        (["azure/*h100*"], {"h100", "h100-nvl"}),
    ],
)
def test_list_filters_types(allot: Allot, words: list[str], wanted: set[str]) -> None:
    out = allot("catalog", "list", *words).out
    lines = [line.split() for line in out.splitlines()[1:] if "/" in line.split(" ")[0]]
    assert {line[2] for line in lines} == wanted


def test_options_before_the_command_apply(allot: Allot) -> None:
    assert allot("catalog", "--gpu", "t4", "list").out == allot("catalog", "list", "--gpu", "t4").out


def test_types_are_sorted_by_spot_price(allot: Allot) -> None:
    types = json.loads(allot("catalog", "list", "--spot", "-o", "json").out)["instanceTypes"]
    prices = [float(type_["usdPerHour"]["spot"]) for type_ in types]
    assert len(prices) > 30
    assert prices == sorted(prices)


def test_unusable_types_are_listed_with_reason(allot: Allot) -> None:
    out = allot("catalog", "list", "--all").out
    assert {instance.key for instance in catalog()} == set(names(out.partition("Not to be planned with")[0]))
    assert "  its price is unknown: aws/p5e.48xlarge, " in out


def test_csv_output_can_be_read_as_a_catalog(allot: Allot) -> None:
    types, problems = read_catalog(allot("catalog", "list", "aws", "-o", "csv").out, "out.csv")
    assert problems == ()
    assert {instance.key for instance in types} == {
        instance.key for instance in catalog() if instance.provider == "aws"
    }


def test_show_prints_sources_and_differences_between_provider_and_driver(allot: Allot) -> None:
    out = allot("catalog", "show", "p5.48xlarge").out
    assert "On-demand:     55.04 USD per hour\nAs of:         2026-07-20\n" in out
    assert "Memory:        81559Mi each, as the driver reports it" in out
    assert "80Gi each according to the provider; the driver reports less" in out
    assert "Topology:      as on hgx-h100-aws-p5\n" in out
    assert "Unverified:    lowest power limit, NUMA nodes\n" in out
    out = allot("catalog", "show", "aws/g5.12xlarge").out
    assert "22.35Gi each according to the provider; the driver reports more" in out
    assert "which GPUs share a PCIe root" in out
    out = allot("catalog", "show", "gcp/a4-highgpu-8g").out
    assert "Price:         unknown\n" in out
    assert "Not in plans:  its price is unknown\n" in out
    data = yaml.safe_load(allot("catalog", "show", "aws/p4d.24xlarge", "-o", "yaml").out)
    assert data["usdPerHour"] == {"on-demand": "21.957642"}
    assert data["hardware"] == "8xa100-40gb"


def test_slices_of_a_future_node(allot: Allot) -> None:
    ran = allot("catalog", "slices", "aws/p4d.24xlarge", "--mode", "static-mig=1g.5gb:7", "--node-name", "n")
    (slice_,) = yaml.safe_load_all(ran.out)
    assert slice_["spec"]["pool"] == {"name": "n", "generation": 1, "resourceSliceCount": 1}
    assert len(slice_["spec"]["devices"]) == 56
    assert "only when the node runs: parentUUID" in ran.err
    items = json.loads(allot("catalog", "slices", "gcp/a2-highgpu-1g", "--spot", "--all", "-o", "json").out)["items"]
    assert [item["kind"] for item in items] == ["Node", "ResourceSlice"]
    assert items[0]["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot"


def test_exports_are_manifests_and_report_omissions(allot: Allot) -> None:
    ran = allot("catalog", "export", "karpenter", "aws/g5", "lambda/gpu_1x_a10")
    assert {tree["kind"] for tree in yaml.safe_load_all(ran.out)} == {"NodePool", "NodeOverlay"}
    assert "no Karpenter node class is known for lambda; set --node-class: lambda/gpu_1x_a10" in ran.err
    ran = allot(
        "catalog", "export", "cluster-autoscaler", "--mode", "dynamic-mig", "gcp/a2-highgpu", "gcp/g2-standard-4"
    )
    assert {tree["kind"] for tree in yaml.safe_load_all(ran.out)} == {"Node", "ResourceSlice"}
    assert "its GPUs do not support mode dynamic-mig: gcp/g2-standard-4" in ran.err
    ran = allot("catalog", "export", "kwok", "--nodes", "2", "aws/g5.xlarge", "-o", "json")
    items = json.loads(ran.out)["items"]
    assert [item["metadata"]["name"] for item in items if item["kind"] == "Node"] == [
        "aws-g5-xlarge-1", "aws-g5-xlarge-2"
    ]  # fmt: skip
    pool, *_ = yaml.safe_load_all(allot("catalog", "export", "karpenter", "g5.xlarge", "--node-class", "a.b/C/d").out)
    assert pool["spec"]["template"]["spec"]["nodeClassRef"] == {"group": "a.b", "kind": "C", "name": "d"}


def test_invalid_rows_are_reported_and_the_others_used(allot: Allot, own: Path) -> None:
    ran = allot("catalog", "list", "us/", "--catalog", str(own))
    assert ran.code == 1
    assert names(ran.out) == ["us/rack"]
    assert f"{own}:3:29: bad-cell: on_demand_usd_per_hour: expected USD per hour, above 0" in ran.err
    ran = allot("catalog", "show", "rack", "--catalog", str(own), "-o", "yaml")
    assert yaml.safe_load(ran.out)["zones"] == ["cellar"]
    assert ran.code == 1


def test_invalid_arguments_are_explained(allot: Allot, tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    for words, problem, hint in [
        (["show", "aws/p5.48xlarg"], "unknown instance type 'aws/p5.48xlarg'", "did you mean aws/p5.48xlarge?"),
        (["slices", "aws/p4d.24xlarge", "--mode", "static-mig=1g.5gb:8"], "fits at most 7", ""),
        (["slices", "aws/m6i.xlarge"], "publishes no devices: it has no GPUs", ""),
        (["slices", "aws/g6f.large"], "publishes no devices: it has only part of a GPU", ""),
        (["list", "--provider", "awz"], "unknown provider 'awz'", "did you mean aws?"),
        (["list", "nothing"], "no instance type name contains 'nothing'", ""),
        (["list", "--gpu", "a1000"], "unknown GPU 'a1000'", "did you mean"),
        (["list", "--memory", "lots"], "--memory: expected an amount", ""),
        (["list", "--gpus", "-1"], "--gpus: expected a number >= 0, found -1", ""),
        (
            ["slices", "g5.xlarge", "--zone", "us-east1-a"],
            "--zone: the catalog does not list aws/g5.xlarge in us-east1-a",
            "us-east-1a",
        ),
        (["list", "--max-price", "free"], "--max-price: expected USD per hour", ""),
        (["export", "kwok", "--nodes", "0"], "--nodes: expected 1 to", ""),
        (["export", "karpenter", "lambda"], "no instance type to export", ""),
        (["export", "karpenter", "--mode", "shared"], "--mode: Karpenter's objects contain no slices", ""),
        (["export", "karpenter", "--node-class", "C"], "--node-class: expected GROUP/KIND/NAME", ""),
        (["list", "--catalog", "none.csv"], "none.csv: no such file", ""),
        (["list", "--catalog", str(binary)], "expected a CSV file in UTF-8", ""),
    ]:
        ran = allot("catalog", *words)
        assert ran.code == 2, words
        assert problem in ran.err
        assert hint in ran.err
