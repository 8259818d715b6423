"""Slices that contradict each other are an error in files to apply, and are explained in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Allot

CLAIM = """
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: any}}]}}
"""


def slice_(name: str, body: str, count: int = 2, generation: int = 1) -> str:
    return f"""---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {{name: node, generation: {generation}, resourceSliceCount: {count}}}
  {body}
"""


A, B, A_TOO = "devices: [{name: a}]", "devices: [{name: b}]", "devices: [{name: b}, {name: a}]"
MEMORY = "sharedCounters: [{name: gpu, counters: {memory: {value: 8Gi}}}]"
CORES = "sharedCounters: [{name: gpu, counters: {cores: {value: 8}}}]"
USES = "devices: [{name: a, consumesCounters: [{counterSet: %s, counters: {%s: {value: 1}}}]}]"


@pytest.mark.parametrize(
    ("text", "wanted", "answer"),
    [
        (
            slice_("one", A) + slice_("two", A_TOO),
            [
                "file.yaml:18:31: slices-contradict: pool gpu.example.com/node: device a is also in ResourceSlice one",
                "the other is at file.yaml:9:20",
            ],
            "(pool-invalid)",
        ),
        (
            slice_("one", MEMORY, 3) + slice_("two", CORES, 3) + slice_("three", A, 3),
            ["file.yaml:18:27: ", "counter set gpu is also in ResourceSlice one", "the other is at file.yaml:9:27"],
            "(pool-invalid)",
        ),
        (
            slice_("one", A) + slice_("two", B, count=3),
            [
                "file.yaml:17:57: ",
                "generation 1: resourceSliceCount is 3 here and 2 in ResourceSlice one",
                "file.yaml:8:57",
            ],
            "",
        ),
        (
            slice_("one", A, count=1) + slice_("two", B, count=1),
            [
                "file.yaml:17:57: ",
                "generation 1: found 2 slices, but resourceSliceCount is 1",
                "the first slice is at file",
            ],
            "(pool-incomplete)",
        ),
        (
            slice_("one", MEMORY) + slice_("two", USES % ("gpus", "memory")),
            ["file.yaml:18:55: ", "no slice has counter set gpus"],
            "(pool-invalid)",
        ),
        (
            slice_("one", MEMORY) + slice_("two", USES % ("gpu", "cores")),
            ["file.yaml:18:78: ", "counter set gpu has no counter cores", "the set is at file.yaml:9:27"],
            "(pool-invalid)",
        ),
    ],
)
def test_conflict_is_an_error_in_files_and_explained_in_a_cluster(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, wanted: list[str], answer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.yaml").write_text(text)
    Path("claim.yaml").write_text(CLAIM)
    ran = allot("explain", "-f", "file.yaml", "claim.yaml")
    assert ran.code == 2
    for words in wanted:
        assert words in ran.err
    assert "Found 1 error.\n" in ran.err
    observed = allot("explain", "--cluster", "file.yaml", "-f", "claim.yaml")
    assert observed.code == (1 if answer else 0)
    assert answer in observed.out
    assert observed.err == ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(slice_("one", A) + slice_("two", B), id="agree"),
        pytest.param(slice_("one", A, 1) + slice_("two", A, 1, generation=2), id="replaced"),
        pytest.param(slice_("two", USES % ("gpu", "memory")), id="counters-may-be-elsewhere"),
        pytest.param(
            slice_("one", A) + slice_("two", A).replace("{name: node,", "{name: other,"), id="names-are-of-a-pool"
        ),
    ],
)
def test_consistent_objects_are_accepted(allot: Allot, tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    assert allot("free", "-f", str(file)).code == 0
