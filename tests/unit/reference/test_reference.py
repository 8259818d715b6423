"""Reference data are the JSON that the commands print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment import reference
from allotment.api.cluster import Cluster
from allotment.cli.main import main
from allotment.errors import InputError, InvalidManifests

COLUMNS = "provider,instance_type,region,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour"
WITHOUT_GPUS = reference.instance_types(gpu="none")[0]["name"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A catalog with one more type."""
    path = tmp_path / "own.csv"
    path.write_text(f"{COLUMNS}\nus,rack,cellar,64,512,8,l40s,2.5\n")
    return path


@pytest.mark.parametrize(
    ("command", "data"),
    [
        ("version", reference.versions),
        ("rule", lambda: {"rules": reference.rules()}),
        ("rule cel", lambda: {"rules": reference.rules("cel")}),
        ("rule M401", lambda: reference.rule("M401")),
        ("vocabulary", reference.vocabulary),
        ("vocabulary nvidia", lambda: reference.vocabulary("nvidia")),
        ("vocabulary nvidia memory", lambda: reference.vocabulary("nvidia", "memory")),
        ("fleet list", reference.fleet),
        ("fleet show dgx-a100-40gb", lambda: reference.hardware("dgx-a100-40gb")),
        ("fleet show h100", lambda: reference.hardware("h100")),
        ("fleet slices t4-4x-pcie", lambda: reference.slices("t4-4x-pcie")),
        ("fleet slices t4:2 --all", lambda: reference.slices("t4:2", everything=True)),
        ("metrics list", lambda: {"metrics": reference.metrics()}),
        ("doctor --list", reference.checks),
        ("doctor --list --select D1", lambda: reference.checks(["D1"])),
        ("examples list", reference.examples),
        ("rbac reader", lambda: reference.permissions("reader")),
        ("rbac driver --driver a.example.com -n gpu", lambda: reference.permissions(
            "driver", drivers=["a.example.com"], namespace="gpu"
        )),
        ("rbac --list", reference.components),
        ("catalog list aws --spot", lambda: {"instanceTypes": reference.instance_types("aws", spot=True)}),
        ("catalog list --memory 24Gi --max-price 2", lambda: {
            "instanceTypes": reference.instance_types(memory="24Gi", max_price=2)
        }),
        ("catalog show p5.48xlarge", lambda: reference.instance_type("aws/p5.48xlarge")),
        ("catalog slices aws/g5.xlarge --all", lambda: reference.instance_slices("aws/g5.xlarge", everything=True)),
        ("catalog export karpenter aws/g5", lambda: reference.exported("karpenter", "aws/g5")),
        ("catalog export kwok aws/g5 --nodes 2", lambda: reference.exported("kwok", "aws/g5", nodes=2)),
        ("catalog export cluster-autoscaler gcp/g2", lambda: reference.exported("cluster-autoscaler", "gcp/g2")),
    ],
)  # fmt: skip
def test_a_command_prints_the_data(command: str, data: Callable[[], Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "-o", "json"]) == 0
    found = data()
    assert json.loads(capsys.readouterr().out) == found
    assert json.loads(json.dumps(found)) == found


def test_schemas_are_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "DeviceClass", "--kube-version", "1.35"]) == 0
    assert json.loads(capsys.readouterr().out) == reference.schema("DeviceClass", kube="1.35")


def test_running_labs_are_data(capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "-o", "json"])
    assert json.loads(capsys.readouterr().out)["labs"] == reference.labs()


def test_changes_of_the_data_stay_with_the_caller() -> None:
    found = reference.rules("M401")
    found[0]["code"] = "changed"
    assert reference.rules("M401")[0]["code"] == "M401"
    hardware = reference.hardware("dgx-a100-40gb")
    hardware["gpus"].clear()
    assert len(reference.hardware("dgx-a100-40gb")["gpus"]) == 8
    reference.schema()["definitions"].popitem()[1].clear()
    assert all(reference.schema()["definitions"].values())
    reference.vocabulary("nvidia", "memory")["found"][0]["on"].clear()
    assert reference.vocabulary("nvidia", "memory")["found"][0]["on"]


def test_types_of_the_users_catalog_are_included(own: Path) -> None:
    assert [each["name"] for each in reference.instance_types("us/", catalog=[own])] == ["us/rack"]
    assert reference.instance_type("rack", catalog=[own])["usdPerHour"] == {"on-demand": "2.5"}


def test_an_invalid_row_of_a_catalog_is_an_error(own: Path) -> None:
    own.write_text(f"{COLUMNS}\nus,rack,cellar,64,512,8,l40s,-1\n")
    with pytest.raises(InvalidManifests, match=r"own\.csv:2:"):
        reference.instance_types(catalog=[own])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: reference.rule("M4"), "expected the code of one rule, found 'M4'"),
        (lambda: reference.rules("Z9"), "unknown rule 'Z9'"),
        (lambda: reference.vocabulary("nvidai"), "unknown driver 'nvidai'"),
        (lambda: reference.vocabulary("nvidia", "no-such-name"), "contains 'no-such-name'"),
        (lambda: reference.vocabulary("gpu.nvidia.com", release="1.0"), "1.0"),
        (lambda: reference.hardware("t5"), "t5"),
        (lambda: reference.slices("t4", kube="2.0"), "kube: expected one of"),
        (lambda: reference.instance_types(memory="lots"), "memory: expected an amount such as '>=24Gi', found 'lots'"),
        (lambda: reference.instance_types(max_price=0), "max_price: expected USD per hour > 0, found 0"),
        (lambda: reference.instance_types(gpus=-1), "gpus: expected a number >= 0, found -1"),
        (
            lambda: reference.instance_slices(reference.instance_types(gpu="none")[0]["name"]),
            "publishes no devices: it has no GPUs",
        ),
        (lambda: reference.instance_slices("aws/g5.xlarge", zone="us"), "zone: the catalog does not list"),
        (lambda: reference.exported("karpentr", "aws/g5"), "target: expected one of karpenter,"),  # type: ignore[arg-type]
        (lambda: reference.exported("karpenter", "lambda/"), "no instance type to export"),
        (lambda: reference.exported("karpenter", "aws/g5", mode="shared"), "mode: Karpenter's objects contain no"),
        (lambda: reference.exported("karpenter", "aws/g5", node_class="a"), "node_class: expected GROUP/KIND/NAME"),
        (lambda: reference.exported("kwok", "aws/g5", nodes=0), "nodes: expected 1 to 10000, found 0"),
        (lambda: reference.schema("ResourceClam"), "has no manifest kind 'ResourceClam'"),
        (lambda: reference.permissions("raeder"), "unknown component 'raeder'"),
        (lambda: reference.checks(["X"]), "select: unknown check 'X'"),
    ],
)
def test_errors_name_the_argument(data: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        data()
    assert message in str(refused.value)


def test_a_driver_can_be_stated_without_a_list() -> None:
    assert reference.permissions("driver", drivers="a.example") == reference.permissions(
        "driver", drivers=["a.example"]
    )


def test_permissions_are_reviewed_on_running_clusters_only() -> None:
    with pytest.raises(InputError, match="cluster: expected a running cluster"):
        reference.missing_permissions("reader", cluster=Cluster.fleet("t4"))
