"""DeviceTaintRules of v1, as Kubernetes 1.37 serves them: in a lab, in files and in snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import allotment
from allotment.model.trees import Tree
from tests.polling import wait_until
from tests.unit.cli.conftest import Allot
from tests.unit.cli.describe.test_command import TRAINING

RULE = """\
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {driver: gpu.nvidia.com}
  taint: {key: example.com/broken, effect: NoSchedule}
"""
WHY = "every matching device is tainted (example.com/broken:NoSchedule) (devices-tainted)"


@pytest.fixture
def lab() -> Iterator[allotment.Lab]:
    with allotment.Lab(fleet="t4-4x-pcie", kube="1.37", speed=50) as lab:
        lab.apply(RULE)
        lab.apply(TRAINING)
        lab.wait("pod/train", until=is_refused)
        yield lab


def is_refused(pod: Tree) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "PodScheduled" and condition["status"] == "False" for condition in conditions)


def flat(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.split())


def test_taint_rules_in_v1_are_read_from_the_cluster(
    lab: allotment.Lab, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))
    explained = allot("explain", "pod/train")
    assert (explained.code, explained.err) == (1, "")
    assert WHY in flat(explained.out)
    free = allot("free")
    assert free.code == 0
    assert "example.com/broken:NoSchedule" in free.out
    assert "taint example.com/broken:NoSchedule" in flat(allot("doctor").out)
    snapshot = tmp_path / "cluster.yaml"
    assert allot("snapshot", "-o", str(snapshot)).code == 0
    assert "kind: DeviceTaintRule" in snapshot.read_text()
    from_file = allot("explain", "--cluster", str(snapshot))
    assert (from_file.code, WHY in flat(from_file.out)) == (1, True)
    lab.delete("devicetaintrule", "broken")
    lab.wait("pod/train")


def test_a_v1_rule_with_noexecute_evicts_pods(lab: allotment.Lab) -> None:
    lab.delete("devicetaintrule", "broken")
    lab.wait("pod/train")
    lab.apply(RULE.replace("NoSchedule", "NoExecute"))
    wait_until(lambda: not lab.list("pod", namespace="default"), "the pod is evicted")


def test_v1_rules_are_read_from_files(allot: Allot, tmp_path: Path) -> None:
    rule, pod = tmp_path / "rule.yaml", tmp_path / "pod.yaml"
    rule.write_text(RULE)
    pod.write_text(TRAINING)
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(f"{allot('fleet', 'slices', 't4-4x-pcie', '--all').out}---\n{RULE}")
    words = ("--cluster", str(cluster), "--kube-version", "1.37")
    explained = allot("explain", "-f", str(pod), *words)
    assert (explained.code, WHY in flat(explained.out)) == (1, True)
    assert "example.com/broken:NoSchedule" in allot("free", *words).out
    assert allot("check", str(rule), "--kube-version", "1.37").code == 0
    earlier = allot("check", str(rule), "--kube-version", "1.36")
    assert earlier.code == 1
    assert "Kubernetes 1.36 has no DeviceTaintRule in resource.k8s.io/v1 yet: it was added in 1.37" in flat(earlier.out)


def test_files_are_read_with_the_fields_of_the_release(allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{RULE}---\n{TRAINING}")
    words = ("-f", str(file), "--fleet", "t4-4x-pcie")
    later = allot("explain", *words, "--kube-version", "1.37")
    assert (later.code, WHY in flat(later.out)) == (1, True)
    for command in ("explain", "plan"):
        earlier = allot(command, *words, "--kube-version", "1.36")
        assert earlier.code == 2
        assert 'no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1"' in flat(earlier.err)
        assert "has DeviceTaintRule since Kubernetes 1.37; 1.36 has resource.k8s.io/v1beta2" in flat(earlier.err)
