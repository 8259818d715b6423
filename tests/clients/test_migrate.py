"""The output of ``allot migrate`` with real kubectl and an API server: applied, in use, and rolled back."""

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
    """The namespaces of the corpus; where something monitors GPUs, admin access is enabled, as in the runbook."""
    loaded = load_paths(AFTER).documents
    names = {str(document.tree.get("metadata", {}).get("namespace", "default")) for document in loaded}
    created = sorted(names - {"default", "kube-system"})
    for name in created:
        kubectl("create", "namespace", name)
    kubectl("label", "namespace", "monitoring", "resource.kubernetes.io/admin-access=true")
    yield
    for name in created:
        kubectl("delete", "namespace", name, "--wait=false")


def test_the_api_server_accepts_every_migrated_file(kubectl: Run, namespaces: None) -> None:
    output = kubectl("apply", "--dry-run=server", "-f", str(CORPUS / "after"), timeout=120).out
    documents = load_paths(AFTER).documents
    assert len(documents) > 30
    assert len(output.splitlines()) == len(documents)
    assert all(line.endswith(" (server dry run)") for line in output.splitlines())


def migrate(*arguments: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(["migrate", *arguments])
    assert code == 0, out.getvalue()
    return out.getvalue()


def commands(page: str, heading: str) -> list[str]:
    """The commands of a section of the runbook; continued lines are joined."""
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return "".join(blocks).replace("\\\n", "").splitlines()


def run_commands(kubectl: Run, folder: Path, lines: list[str]) -> None:
    """Run the commands for workloads; nodes have no device plugin in the lab, and need not change."""
    for line in lines:
        arguments = line.split()
        if arguments[0] != "kubectl" or "NODE" in arguments or any("NODE" in word for word in arguments):
            continue
        after_file = next((n for n, word in enumerate(arguments) if word == "-f"), None)
        if after_file is not None:
            arguments[after_file + 1] = str(folder / arguments[after_file + 1])
        kubectl(*arguments[1:], timeout=60)


def test_migration_and_rollback_by_the_runbook(kubectl: Run, namespace: str, tmp_path: Path) -> None:
    """The old manifest is pending without a device plugin; the new one runs; then everything is as before."""
    source = tmp_path / "app.yaml"
    text = (CORPUS / "before" / "product-selector.yaml").read_text().replace("kind: ReplicaSet", "kind: Deployment")
    source.write_text(text)
    folder = tmp_path / "new"
    migrate(str(source), "-n", namespace, "-d", str(folder), "--fleet", "dgx-a100-40gb")
    page = (folder / "README.md").read_text()
    kubectl("-n", namespace, "apply", "-f", str(source))

    run_commands(kubectl, folder, commands(page, "2. Server-side dry run"))
    run_commands(kubectl, folder, commands(page, "4. Workloads"))
    pods = json.loads(kubectl("-n", namespace, "get", "pods", "-o", "json").out)["items"]
    running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
    assert len(running) == 2
    assert all(pod["status"]["resourceClaimStatuses"] for pod in running)
    claims = json.loads(kubectl("-n", namespace, "get", "resourceclaims", "-o", "json").out)["items"]
    results = [claim["status"]["allocation"]["devices"]["results"] for claim in claims if "status" in claim]
    assert sorted(map(len, results)) == [2, 2]

    lines = [line for line in commands(page, "Roll-back") if "rollout status" not in line]
    run_commands(kubectl, folder, lines)
    deployment = json.loads(kubectl("-n", namespace, "get", "deployment", "render", "-o", "json").out)
    spec = deployment["spec"]["template"]["spec"]
    assert "resourceClaims" not in spec
    assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
    assert spec["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}
    }  # fmt: skip
    assert kubectl("-n", namespace, "get", "resourceclaimtemplates", "--no-headers").out == ""
