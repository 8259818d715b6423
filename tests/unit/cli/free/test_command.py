"""The output of ``free``: the summary first, then users and remaining devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Allot

CLAIMS = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train, namespace: ml}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]}}
status:
  allocation:
    devices:
      results:
      - {request: g, driver: gpu.nvidia.com, pool: a, device: gpu-1}
      - {request: g, driver: gpu.nvidia.com, pool: mig, device: gpu-0-mig-3g40gb-9-4}
      - {request: g, driver: gpu.nvidia.com, pool: gone, device: gpu-0}
  reservedFor:
  - {resource: pods, name: train-0, uid: u0}
  - {resource: pods, name: train-1, uid: u1}
"""


@pytest.fixture
def snapshot(allot: Allot, tmp_path: Path) -> str:
    file = tmp_path / "snapshot.yaml"
    file.write_text(allot("fleet", "slices", "a=2xt4,mig=h100/dynamic-mig", "--all").out + "---\n" + CLAIMS)
    return str(file)


def test_the_first_line_is_the_summary_and_tables_follow(allot: Allot, snapshot: str) -> None:
    ran = allot("free", "--cluster", snapshot)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "15 of 28 devices are free, on 2 nodes."
    assert lines[1] == "Counts include all possible partitions; overlapping ones exclude each other."
    assert "a      Tesla T4                    2       1      1        0" in lines
    assert "a      gpu-1                  ml/train   train-0,train-1" in lines
    assert "mig    gpu-0-mig-3g40gb-9-4   ml/train   train-0,train-1" in lines
    (counters,) = [line for line in lines if "gpu-0-counter-set" in line]
    assert "memory 40704Mi of 81152Mi, memory-slice 4 of 8, multiprocessors 72 of 132" in counters
    assert "ml/train   gpu.nvidia.com/gone/gpu-0" in lines


NODES = """\
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {unschedulable: true}
---
apiVersion: v1
kind: Node
metadata: {name: mig}
spec: {taints: [{key: dedicated, value: ml, effect: NoSchedule}]}
---
"""


@pytest.fixture
def closed(allot: Allot, tmp_path: Path) -> str:
    """The snapshot's devices and claims, with one node cordoned and the other one tainted."""
    file = tmp_path / "closed.yaml"
    file.write_text(NODES + allot("fleet", "slices", "a=2xt4,mig=h100/dynamic-mig").out + "---\n" + CLAIMS)
    return str(file)


def test_devices_of_unschedulable_nodes_are_counted_apart(allot: Allot, closed: str) -> None:
    lines = allot("free", "--cluster", closed).out.splitlines()
    assert lines[0] == "0 of 28 devices are free, on 2 nodes; 15 more are on 2 unschedulable nodes."
    start = lines.index("Unschedulable nodes")
    assert [line.split(None, 2) for line in lines[start + 1 : start + 4]] == [
        ["NODE", "DEVICES", "REASON"],
        ["a", "1", "cordoned"],
        ["mig", "14", "taint dedicated=ml:NoSchedule"],
    ]
    (row,) = [line for line in allot("free", "--cluster", closed, "--by", "product").out.splitlines() if "T4" in line]
    assert row.split() == ["Tesla", "T4", "1", "2", "0", "1", "0", "1", "0"]
    data = json.loads(allot("free", "--cluster", closed, "-o", "json").out)
    assert [node["unschedulable"] for node in data["nodes"]] == ["cordoned", "taint dedicated=ml:NoSchedule"]


def test_devices_of_several_nodes_are_counted_apart_if_all_of_these_are_cordoned(allot: Allot, tmp_path: Path) -> None:
    nodes = [f"""\
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
spec: {{unschedulable: true}}
---
""" for name in ("a", "b")]  # fmt: skip
    attached = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: net}
spec:
  driver: nic.example.com
  allNodes: true
  pool: {name: net, generation: 1, resourceSliceCount: 1}
  devices: [{name: nic-0}, {name: nic-1}]
"""
    file = tmp_path / "attached.yaml"
    file.write_text("".join(nodes) + attached)
    lines = allot("free", "--cluster", str(file)).out.splitlines()
    assert lines[0] == "0 of 2 devices are free, on one node; 2 more are usable only from unschedulable nodes."
    assert lines[lines.index("Unschedulable nodes") + 2].split(None, 2) == ["<any>", "2", "a: cordoned, b: cordoned"]


@pytest.mark.parametrize("toleration", ["dedicated", "dedicated=ml", "dedicated=ml:NoSchedule"])
def test_devices_behind_a_tolerated_taint_are_free(allot: Allot, closed: str, toleration: str) -> None:
    ran = allot("free", "--cluster", closed, "--toleration", toleration)
    assert ran.out.startswith("14 of 28 devices are free, on 2 nodes; 1 more is on node a (cordoned).\n")


@pytest.mark.parametrize("toleration", ["", ":NoSchedule", "dedicated:never"])
def test_an_invalid_toleration_is_reported(allot: Allot, snapshot: str, toleration: str) -> None:
    ran = allot("free", "--cluster", snapshot, "--toleration", toleration)
    assert (ran.code, ran.out) == (2, "")
    assert "expected KEY[=VALUE][:EFFECT]" in ran.err


def test_devices_of_one_claim_on_one_node_are_one_row(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.yaml"
    results = "".join(
        f"      - {{request: g, driver: gpu.nvidia.com, pool: a, device: gpu-{n}}}\n" for n in (0, 1, 2, 5)
    )
    head, _, tail = CLAIMS.partition("      - {request")
    claim = f"{head}{results}  reservedFor{tail.partition('  reservedFor')[2]}"
    file.write_text(allot("fleet", "slices", "a=8xt4", "--all").out + "---\n" + claim)
    assert (
        "a      gpu-0…2, gpu-5   ml/train   train-0,train-1" in allot("free", "--cluster", str(file)).out.splitlines()
    )


def test_wide_lists_every_device(allot: Allot, snapshot: str) -> None:
    out = allot("free", "--cluster", snapshot, "-o", "wide").out
    assert sum("gpu-" in line for line in out.splitlines()) >= 28
    (blocked,) = [line for line in out.splitlines() if "gpu-0-mig-7g80gb-0-0" in line]
    assert "blocked   (ml/train)" in blocked


def test_json_is_the_report(allot: Allot, snapshot: str) -> None:
    report = json.loads(allot("free", "--cluster", snapshot, "-o", "json").out)
    assert [node["node"] for node in report["nodes"]] == ["a", "mig"]
    assert report["nodes"][0]["devices"][1]["holders"] == [{"claim": "ml/train", "consumers": ["train-0", "train-1"]}]


def test_output_fits_80_columns(allot: Allot, snapshot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    tables = allot("free", "--cluster", snapshot).out.splitlines()[1:]
    assert max(map(len, tables)) <= 80


def test_equal_nodes_share_a_row_and_many_claims_are_counted_by_namespace(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = "".join(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n"
        f"metadata: {{name: c{n}, namespace: ml}}\nspec: {{devices: {{requests: [{{name: g, exactly: "
        "{deviceClassName: gpu.nvidia.com}}]}}\nstatus: {allocation: {devices: {results: "
        f"[{{request: g, driver: gpu.nvidia.com, pool: t4-{n}, device: gpu-0}}]}}}}}}\n"
        for n in range(1, 24)
    )
    file = tmp_path / "snapshot.yaml"
    file.write_text(allot("fleet", "slices", "t4:30", "--all").out + claims)
    monkeypatch.setenv("COLUMNS", "80")
    lines = allot("free", "--cluster", str(file)).out.splitlines()
    assert lines[0] == "7 of 30 devices are free, on 30 nodes."
    assert [line.split() for line in lines[3:5]] == [
        ["7", "t4-24", "…", "Tesla", "T4", "1", "1", "0"], ["23", "t4-1", "…", "Tesla", "T4", "1", "0", "1"],
    ]  # fmt: skip
    assert lines[-1].split() == ["ml", "23", "0", "23"]
    assert len(lines) < 12
    assert len(allot("free", "--cluster", str(file), "--by", "node").out.splitlines()) > 53


def test_listing_every_device_by_product_is_rejected(allot: Allot) -> None:
    ran = allot("free", "--fleet", "t4", "--by", "product", "-o", "wide")
    assert ran.code == 2
    assert "--by counts devices in groups" in ran.err


def test_no_published_devices_is_reported(allot: Allot) -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"
    assert allot("free", "--cluster", "-", stdin=text).out == "No node publishes devices.\n"
