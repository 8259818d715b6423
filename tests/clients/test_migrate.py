"""What ``allot migrate`` writes, as real kubectl and an API server take it: applied, in use, and taken back."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.model.loading import load_paths
from tests.clients.conftest import Run

CORPUS = Path(__file__).parents[1] / "corpus" / "migrate"
AFTER = sorted((CORPUS / "after").glob("*.yaml"))


@pytest.fixture(scope="module")
def namespaces(kubectl: Run) -> Iterator[None]:
    """Those that the corpus is for; where something watches GPUs, admin access is allowed, as the runbook says."""
    loaded = load_paths(AFTER).documents
    names = {str(document.tree.get("metadata", {}).get("namespace", "default")) for document in loaded}
    made = sorted(names - {"default", "kube-system"})
    for name in made:
        kubectl("create", "namespace", name)
    kubectl("label", "namespace", "monitoring", "resource.kubernetes.io/admin-access=true")
    yield
    for name in made:
        kubectl("delete", "namespace", name, "--wait=false")


def test_the_api_server_takes_every_migrated_file(kubectl: Run, namespaces: None) -> None:
    told = kubectl("apply", "--dry-run=server", "-f", str(CORPUS / "after"), timeout=120).out
    documents = load_paths(AFTER).documents
    assert len(documents) > 30
    assert len(told.splitlines()) == len(documents)
    assert all(line.endswith(" (server dry run)") for line in told.splitlines())


def migrate(*arguments: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(["migrate", *arguments])
    assert code == 0, out.getvalue()
    return out.getvalue()


def commands(page: str, heading: str) -> list[str]:
    """The commands of a section of the runbook, those over several lines joined."""
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return "".join(blocks).replace("\\\n", "").splitlines()


def follow(kubectl: Run, folder: Path, lines: list[str]) -> None:
    """Run the commands for workloads; nodes have no device plugin in the lab, and need not change."""
    for line in lines:
        words = line.split()
        if words[0] != "kubectl" or "NODE" in words or any("NODE" in word for word in words):
            continue
        after_file = next((n for n, word in enumerate(words) if word == "-f"), None)
        if after_file is not None:
            words[after_file + 1] = str(folder / words[after_file + 1])
        kubectl(*words[1:], timeout=60)


def test_the_way_there_and_back_by_the_runbook(kubectl: Run, namespace: str, tmp_path: Path) -> None:
    """The old manifest waits without a device plugin; the new one runs; then everything is as before."""
    source = tmp_path / "app.yaml"
    text = (CORPUS / "before" / "product-selector.yaml").read_text().replace("kind: ReplicaSet", "kind: Deployment")
    source.write_text(text)
    folder = tmp_path / "new"
    migrate(str(source), "-n", namespace, "-d", str(folder), "--fleet", "dgx-a100-40gb")
    page = (folder / "README.md").read_text()
    kubectl("-n", namespace, "apply", "-f", str(source))

    follow(kubectl, folder, commands(page, "2. Server-side dry run"))
    follow(kubectl, folder, commands(page, "4. Workloads"))
    pods = json.loads(kubectl("-n", namespace, "get", "pods", "-o", "json").out)["items"]
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    assert len(running) == 2
    assert all(pod["status"]["resourceClaimStatuses"] for pod in running)
    claims = json.loads(kubectl("-n", namespace, "get", "resourceclaims", "-o", "json").out)["items"]
    results = [claim["status"]["allocation"]["devices"]["results"] for claim in claims if "status" in claim]
    assert sorted(map(len, results)) == [2, 2]

    lines = [line for line in commands(page, "Roll-back") if "rollout status" not in line]
    follow(kubectl, folder, lines)
    deployment = json.loads(kubectl("-n", namespace, "get", "deployment", "render", "-o", "json").out)
    spec = deployment["spec"]["template"]["spec"]
    assert "resourceClaims" not in spec
    assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
    assert spec["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}
    }  # fmt: skip
    assert kubectl("-n", namespace, "get", "resourceclaimtemplates", "--no-headers").out == ""
