"""The output of ``allot fleet``: known hardware and the slices that it publishes."""

from __future__ import annotations

import json

import pytest
import yaml

from allotment.fleet import accelerators, hardware, servers
from tests.unit.cli.conftest import Allot


def test_the_list_names_every_server_and_accelerator(allot: Allot) -> None:
    out = allot("fleet", "list").out
    assert all(name in out for name in servers())
    assert all(record.aliases[0] in out for record in accelerators().values())
    data = json.loads(allot("fleet", "list", "-o", "json").out)
    assert {entry["id"] for entry in data["accelerators"]} == set(accelerators())


def test_lists_and_properties_fit_80_columns(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = allot("fleet", "list").out
    assert max(map(len, listed.splitlines())) <= 80
    assert all(name in listed for name in (*servers(), *(record.aliases[0] for record in accelerators().values())))
    assert "allot fleet show HARDWARE shows all modes." in listed
    assert "shows all modes" not in allot("fleet", "list", "-o", "json").out
    for name in (*servers(), *accelerators()):
        shown = allot("fleet", "show", name).out
        assert max(map(len, shown.splitlines())) <= 80, name
    unverified = " ".join(allot("fleet", "show", "h200").out.split())
    assert "Unverified: " + ", ".join(hardware("h200").accelerator.unverified) in unverified


def test_show_prints_topology_and_profiles(allot: Allot) -> None:
    out = allot("fleet", "show", "dgx-a100-40gb").out
    assert "0000:0f:00.0   pci0000:00   3" in out
    assert "1g.5gb+me" in out
    assert yaml.safe_load(allot("fleet", "show", "mi300x", "-o", "yaml").out)["partitions"][0]["memoryMiB"] == 196592


def test_slices_are_manifests(allot: Allot) -> None:
    ran = allot("fleet", "slices", "dgx-a100-40gb", "--mode", "dynamic-mig", "--node-name", "gpu-1")
    documents = list(yaml.safe_load_all(ran.out))
    assert {document["kind"] for document in documents} == {"ResourceSlice"}
    assert {document["spec"]["nodeName"] for document in documents} == {"gpu-1"}
    assert len(documents) == 9


def test_all_prints_a_whole_cluster_as_json(allot: Allot) -> None:
    ran = allot("fleet", "slices", "a=t4:2,b=mi300x", "--all", "-o", "json")
    items = json.loads(ran.out)["items"]
    assert [item["metadata"]["name"] for item in items if item["kind"] == "Node"] == ["a-1", "a-2", "b"]
    assert sum(item["kind"] == "DeviceClass" for item in items) == 6


def test_invalid_arguments_are_explained(allot: Allot) -> None:
    for words, problem in [
        (["show", "dgx"], "unknown hardware 'dgx'"),
        (["slices", "t4", "--mode", "dynamic-mig"], "Tesla T4 does not support MIG"),
        (["slices", "t4:2", "--node-name", "x"], "already specifies a mode or nodes"),
        (["slices", "t4", "--gpus", "0"], "expected 1 to 16 GPUs"),
        (["slices", "dgx-a100-40gb", "--gpus", "9"], "dgx-a100-40gb has 8 GPUs"),
    ]:
        ran = allot("fleet", *words)
        assert ran.code == 2
        assert problem in ran.err
