"""The output of kustomize: the chart's objects, in overlays that can be combined."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.packaging import made_files, restricted
from tests.packaging.helm import PIECES, ROOT, objects, run

FOLDER = ROOT / "deploy" / "kustomize"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())


def test_each_component_has_an_overlay() -> None:
    pieces = {piece.replace(".", "-") for piece in PIECES}
    pieces |= {f"{piece.replace('.', '-')}-simulated" for piece in made_files.SIMULATED}
    assert {*OVERLAYS, "exporter", "annotator"} == pieces


def test_the_base_is_read_only(kubectl: str) -> None:
    trees = objects(run(kubectl, "kustomize", FOLDER / "base"))
    assert {tree["metadata"]["name"] for tree in trees if tree["kind"] == "Deployment"} == {
        "allotment-annotator", "allotment-exporter"
    }  # fmt: skip


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlays_namespace_admits_its_pods(kubectl: str, overlay: str) -> None:
    trees = objects(run(kubectl, "kustomize", FOLDER / "overlays" / overlay))
    (namespace,) = (tree for tree in trees if tree["kind"] == "Namespace")
    level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    pods = [pod for tree in trees if (pod := restricted.pod_of(tree))]
    assert pods
    if level == "restricted":
        assert not [lack for pod in pods for lack in restricted.violations(pod)]
    else:
        assert overlay.startswith("driver-")
    for tree in trees:
        assert tree["metadata"].get("namespace", namespace["metadata"]["name"]) == namespace["metadata"]["name"]
        assert "Helm" not in str(tree["metadata"].get("labels"))


def test_custom_overlays_can_combine_components(kubectl: str, tmp_path: Path) -> None:
    """In another namespace: no command line of a component contains the old one."""
    tree = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "elsewhere",
        "resources": ["deploy/kustomize/base"],
        "components": ["deploy/kustomize/components/scheduler", "deploy/kustomize/components/claims"],
        "images": [{"name": "localhost/allotment", "newName": "registry.example/allotment", "newTag": "1"}],
    }  # fmt: skip
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(tree))
    built = run(kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", tmp_path)
    found = [each for each in objects(built) if each["kind"] == "Deployment"]
    assert len(found) == 4
    for each in found:
        (container,) = restricted.pod_of(each)["containers"]
        assert container["image"] == "registry.example/allotment:1"
        assert not any("=allotment" in word for word in container["args"] if not word.startswith("--scheduler-name"))
        assert each["metadata"]["namespace"] == "elsewhere"
