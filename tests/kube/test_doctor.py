"""``allot doctor`` finds what is broken on Kubernetes' own control plane, and the same on its snapshot."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allotment.api.clusters.examination import examine_live
from allotment.api.clusters.live import LiveSource
from allotment.cli.main import main
from allotment.model.features import Features
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree
from allotment.tools.doctor.examination import run_checks
from allotment.tools.doctor.finding import ClusterFinding
from bench.kube_programs import RELEASES
from bench.real_kube import ApiServer
from tests.polling import wait_until

pytestmark = pytest.mark.every_release

#: Namespaces first: a pod needs the service account that the controller manager creates there.
NAMESPACES = """\
{apiVersion: v1, kind: Namespace, metadata: {name: ml}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tight}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: tight}
spec: {hard: {gpu.nvidia.com.deviceclass.resource.k8s.io/devices: "1"}}
"""
TIMEOUT_SECONDS = 120


class CommandResult(NamedTuple):
    """Exit code and output."""

    code: int
    out: str


Allot = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def allot(kube: ApiServer) -> Allot:
    """Runs ``allot`` on this cluster."""

    def run(*words: str) -> CommandResult:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main([words[0], "--kubeconfig", str(kube.kubeconfig), *words[1:]])
        return CommandResult(code, output.getvalue())

    return run


def template(namespace: str, name: str, device_class: str) -> Tree:
    """A claim template for one device."""
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class}}]}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"spec": spec},
    }  # fmt: skip


def pod(name: str, namespace: str = "ml", source: str = "one", **spec: Any) -> Tree:
    """A pod with a claim of a template, or with the claim ``alone``."""
    entry = {"resourceClaimName": source} if source == "alone" else {"resourceClaimTemplateName": source}
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    body = {"containers": [container], "resourceClaims": [{"name": "gpu", **entry}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": body}


BROKEN = (
    template("ml", "one", "gpu.nvidia.com"),
    template("tight", "one", "gpu.nvidia.com"),
    template("ml", "bad", "gpu.nvidia.con"),
    {**template("ml", "alone", "gpu.nvidia.com")["spec"], "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
     "metadata": {"name": "alone", "namespace": "ml"}},
    *(pod(f"web-{number}") for number in range(4)),
    pod("typo", source="onne"),
    pod("classless", source="bad"),
    pod("pinned", source="alone", nodeName="t4-1"),
    pod("odd", schedulerName="volcano"),
    pod("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
    pod("first", "tight"),
    pod("second", "tight"),
)  # fmt: skip


@pytest.fixture(scope="module")
def broken(allot: Allot, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two nodes with a T4 each, and the mistakes that users make."""
    folder = tmp_path_factory.mktemp("broken")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main(["fleet", "slices", "t4:2", "--all"])
    for name, text in {"fleet": output.getvalue(), "namespaces": NAMESPACES, "broken": to_yaml(BROKEN)}.items():
        (folder / f"{name}.yaml").write_text(text)
        if name == "broken":
            for namespace in ("ml", "tight"):
                arguments = ("-n", namespace, "--for", "create", "--timeout", f"{TIMEOUT_SECONDS}s")
                assert allot("wait", "serviceaccount/default", *arguments).code == 0
        ran = allot("apply", "-f", str(folder / f"{name}.yaml"))
        assert ran.code == 0, ran.out


def find(kube: ApiServer) -> dict[str, ClusterFinding]:
    """The findings with a clock three minutes ahead, when no problem counts as recent any more."""
    seen, notes = examine_live(LiveSource("", kube.kubeconfig, None, (), prefer_lab=False))
    assert notes == ()
    assert seen.now is not None
    assert (seen.unread, seen.denied) == ({}, [])
    return {finding.code: finding for finding in run_checks(replace(seen, now=seen.now + timedelta(minutes=3)))}


def wait_for_findings(kube: ApiServer, wanted: set[str], **texts: str) -> dict[str, ClusterFinding]:
    """Wait until the findings include these with these texts: schedulers and controllers need time."""
    now: dict[str, ClusterFinding] = {}

    def there() -> bool:
        now.clear()
        now.update(find(kube))
        return wanted | texts.keys() <= now.keys() and all(text in now[code].evidence for code, text in texts.items())

    wait_until(there, lambda: f"expected {sorted(wanted)} and {texts}, found {now}")
    return now


@pytest.mark.usefixtures("broken")
def test_mistakes_of_users_are_found(kube: ApiServer) -> None:
    findings = wait_for_findings(
        kube, {"D204", "D405", "D512", "D601", "D604", "D605"}, D606="exceeded quota: team",
        D603='ResourceClaimTemplate "onne" does not exist', D602="node-not-eligible",
    )  # fmt: skip
    assert findings["D204"].subject == "2 nodes"  # no kubelet ever ran
    assert findings["D405"].subject == "class/gpu.nvidia.con"
    assert findings["D601"].objects == ("ml/pinned",)
    assert findings["D605"].objects == ("ml/odd",)


@pytest.mark.usefixtures("broken")
def test_gates_and_versions_are_those_of_the_server(kube: ApiServer, release: str) -> None:
    seen, _ = examine_live(LiveSource("", kube.kubeconfig, None, (), prefer_lab=False))
    assert seen.version == RELEASES[release]
    assert seen.served is not None
    assert seen.served["resourceclaims"][0] == "v1"
    assert seen.gates is not None
    assert seen.gates["DRADeviceTaints"] is True
    has_rules = Features(release).enabled("DRADeviceTaintRules")
    assert seen.gates["DRADeviceTaintRules"] is has_rules
    assert (seen.features.kube, seen.features.enabled("DRADeviceTaintRules")) == (release, has_rules)


@pytest.mark.usefixtures("broken")
def test_a_snapshot_has_the_findings_of_the_cluster(kube: ApiServer, allot: Allot, tmp_path: Path) -> None:
    wait_for_findings(kube, {"D512", "D603"})
    redacted = tmp_path / "redacted.yaml"

    def looked() -> Any:
        """The output, provided that nothing changed meanwhile."""
        before = json.loads(allot("doctor", "-o", "json").out)
        assert allot("snapshot", "-o", str(tmp_path / "snapshot.yaml")).code == 0
        assert allot("snapshot", "--redact", "-o", str(redacted)).code == 0
        after = json.loads(allot("doctor", "-o", "json").out)
        return after if before == after else None

    after = wait_until(looked)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["doctor", "--cluster", str(tmp_path / "snapshot.yaml"), "-o", "json"]) == 1
    assert json.loads(output.getvalue())["findings"] == after["findings"]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["doctor", "--cluster", str(redacted), "-o", "json"]) == 1
    codes = [(finding["code"], finding["severity"]) for finding in after["findings"]]
    assert sorted(
        (finding["code"], finding["severity"]) for finding in json.loads(output.getvalue())["findings"]
    ) == sorted(codes)
