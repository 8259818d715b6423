"""``allotment.Lab`` as used by tests and programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import textwrap
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import allotment
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES, PODS
from allotment.lab.manifests import NotApplied
from tests.polling import wait_until

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: %d}}]}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers: [{name: main, image: busybox, command: [sleep, infinity], resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: %s}]
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    with allotment.Lab(fleet="t4-4x-pcie", speed=50) as lab:
        yield lab


def test_a_pod_gets_its_gpu(lab: allotment.Lab) -> None:
    written = lab.apply(CLAIM % ("one", 1) + "---" + POD % ("train", "one"))
    assert [tree["kind"] for tree in written] == ["ResourceClaim", "Pod"]
    claim, pod = lab.wait("resourceclaim/one", "pod/train")
    assert claim["status"]["reservedFor"][0]["name"] == "train"
    assert pod["spec"]["nodeName"] == "t4-4x-pcie-1"
    lab.delete("pod", "train")
    lab.delete(CLAIM % ("one", 1))
    lab.delete("pod", "never-was")
    with pytest.raises(StatusError):
        lab.get("pod", "train")


def test_loaded_manifests_are_applied_and_errors_name_their_file(lab: allotment.Lab, tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(CLAIM % ("loaded", 1) + "---" + (CLAIM % ("In_valid", 1)))
    with pytest.raises(NotApplied, match=r"claims\.yaml:9:18: ResourceClaim In_valid"):
        lab.apply(allotment.load(file))
    assert lab.get("resourceclaim", "loaded")["metadata"]["namespace"] == "default"
    lab.delete("resourceclaim", "loaded")


def test_a_blocked_deletion_is_reported_with_its_blockers(lab: allotment.Lab) -> None:
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/kept"]}}
    lab.apply(held)
    with pytest.raises(TimeoutError, match=r"configmap/held: finalizer example\.com/kept"):
        lab.delete(held, timeout=0.2)
    lab.client.patch(lab.resource("cm"), "held", {"metadata": {"finalizers": None}}, "default")
    lab.delete("cm", "held")
    with pytest.raises(StatusError):
        lab.get("cm", "held")


def test_an_unmet_condition_is_reported_with_the_reason(lab: allotment.Lab) -> None:
    lab.apply([CLAIM % ("nine", 9), POD % ("greedy", "nine")])
    wait_until(lambda: lab.get("pod", "greedy")["status"].get("conditions"))
    with pytest.raises(TimeoutError, match=r"pod/greedy: not scheduled: ") as error:
        lab.wait("pod/greedy", "pod/nobody", timeout=1)
    assert "pod/nobody: it does not exist" in str(error.value)
    lab.delete([POD % ("greedy", "nine"), CLAIM % ("nine", 9)])


def test_invalid_manifests_are_rejected_with_their_position(lab: allotment.Lab, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(POD % ("a", "one") + "  nodeNmae: x\n")
    with pytest.raises(NotApplied, match=r"wrong\.yaml:8:3: Pod a: .*nodeNmae"):
        lab.apply(path)
    with pytest.raises(NotApplied, match="unknown kind 'Pdo'; did you mean 'Pod'"):
        lab.apply({"apiVersion": "v1", "kind": "Pdo", "metadata": {"name": "a"}})
    with pytest.raises(NotApplied, match=r"never\.yaml"):
        lab.apply(tmp_path / "never.yaml")


def test_the_client_supports_all_api_operations(lab: allotment.Lab) -> None:
    (node,) = lab.client.list(NODES).items
    assert lab.client.get(NODES, node["metadata"]["name"]) == node
    events = lab.client.watch(PODS, "default", revision=lab.client.list(PODS).revision)
    lab.apply(POD.replace("claims: [{name: gpu}]", "").replace("  resourceClaims", "  #") % ("seen", ""))
    assert next(events).object["metadata"]["name"] == "seen"
    lab.client.delete(PODS, "seen", "default", grace_seconds=0)


def test_another_user_has_only_the_permissions_that_rbac_grants(lab: allotment.Lab) -> None:
    jane = lab.client_for("jane")
    with pytest.raises(StatusError, match="forbidden"):
        jane.list(PODS, "default")
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}
    jane_and_accounts = [
        {"apiGroup": rbac, "kind": "User", "name": "jane"},
        {"apiGroup": rbac, "kind": "Group", "name": "system:serviceaccounts:operators"},
    ]
    binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": {"name": "view"}}
    lab.apply(binding | {"roleRef": role, "subjects": jane_and_accounts})
    account = lab.client_for("system:serviceaccount:operators:gpu")
    for client in (jane, account):
        client.list(PODS, "default")
        with pytest.raises(StatusError, match="forbidden"):
            client.list(NODES)
    lab.client_for("jane", ["system:masters"]).list(NODES)
    lab.delete("rolebinding", "view")


def test_other_clients_use_the_url_and_kubeconfig(lab: allotment.Lab) -> None:
    with urllib.request.urlopen(f"{lab.url}/api/v1/nodes") as answer:
        assert len(json.load(answer)["items"]) == 1
    assert lab.url in lab.kubeconfig.read_text()


def test_a_lab_with_stored_data_continues(tmp_path: Path) -> None:
    with allotment.Lab("t4-4x-pcie", data=tmp_path / "data", speed=50) as lab:
        lab.apply(CLAIM % ("one", 1) + "---" + POD % ("train", "one"))
        before = lab.wait("resourceclaim/one", "pod/train")
        assert [tree["metadata"]["name"] for tree in lab.wait()] == ["one", "train"], "by default all applied objects"
    with allotment.Lab("t4-4x-pcie", data=tmp_path / "data", without=["kubelets"]) as lab:
        there = lab.get("pod", "train")["status"]
        assert there["phase"] == "Running", "a pod keeps running while its node has no kubelet"
        states = [[each["state"] for each in status["containerStatuses"]] for status in (there, before[1]["status"])]
        assert states[0] == states[1]
    with allotment.Lab("t4-4x-pcie", data=tmp_path / "data", speed=50, tls=True) as lab:
        after = lab.wait("resourceclaim/one", "pod/train")
        assert lab.url.startswith("https")
        for field in ("allocation", "reservedFor"):  # the driver may report the device after the pod started
            assert after[0]["status"][field] == before[0]["status"][field]
        assert [tree["metadata"]["uid"] for tree in after] == [tree["metadata"]["uid"] for tree in before]
        authority = lab.get("configmap", "kube-root-ca.crt")["data"]["ca.crt"]
        assert authority.startswith("-----BEGIN CERTIFICATE-----")


def test_deleted_default_objects_of_a_namespace_are_recreated(lab: allotment.Lab) -> None:
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    uid = lab.get("serviceaccount", "default", namespace="shop")["metadata"]["uid"]
    lab.delete("serviceaccount", "default", namespace="shop")
    assert lab.wait("serviceaccount/default", namespace="shop", timeout=50)[0]["metadata"]["uid"] != uid


def test_labs_run_concurrently_and_stop_once() -> None:
    first, second = allotment.Lab(), allotment.Lab()
    with first, second:
        assert first.url != second.url
        with pytest.raises(RuntimeError, match="already running"):
            first.start()
    first.stop()
    with pytest.raises(RuntimeError, match="not running"):
        first.url.upper()


def test_the_repr_of_a_lab_has_its_url() -> None:
    lab = allotment.Lab(name="two")
    assert repr(lab) == "<Lab 'two' not running>"
    with lab:
        assert repr(lab) == f"<Lab 'two' at {lab.url}>"


def test_importing_the_package_does_not_import_the_lab() -> None:
    script = "import sys, allotment; print([m for m in sys.modules if m.startswith('allotment.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError):
        allotment.Labour  # type: ignore[attr-defined]  # noqa: B018 - that it fails is the point


def test_pytest_gives_each_test_a_lab(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            import pytest

            @pytest.mark.allotment_lab(fleet="t4-4x-pcie:2")
            def test_two_nodes(allotment_lab):
                assert len(allotment_lab.list("nodes")) == 2

            def test_none(allotment_lab):
                assert allotment_lab.list("nodes") == []
        """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "test_it.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout


def test_a_lab_starts_and_stops_while_an_event_loop_is_running() -> None:
    async def main() -> Path:
        with allotment.Lab() as lab:
            return lab.kubeconfig

    assert not asyncio.run(main()).exists()


def test_wait_raises_what_the_function_raises(lab: allotment.Lab) -> None:
    with pytest.raises(KeyError, match="nosuch"):
        lab.wait("node/t4-4x-pcie-1", until=lambda node: bool(node["nosuch"]))


def test_a_timeout_names_what_was_awaited(lab: allotment.Lab) -> None:
    with pytest.raises(TimeoutError, match=r"^phase=Runing not met after 0 s:\nnode/t4-4x-pcie-1: "):
        lab.wait("node/t4-4x-pcie-1", until="phase=Runing", timeout=0)


def test_watches_of_all_threads_end_with_the_lab() -> None:
    seen: list[str] = []
    with allotment.Lab() as lab:
        pods = lab.resource("pod")
        watch = lab.client.watch(lab.resource("ns"), revision=lab.client.list(pods).revision)
        idle = lab.client.watch(pods, revision=lab.client.list(pods).revision)

        def follow() -> None:
            seen.extend(event.object["metadata"]["name"] for event in watch)
            seen.append("end")

        thread = threading.Thread(target=follow)
        thread.start()
        lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        wait_until(lambda: "shop" in seen)
        client = lab.client
    thread.join(timeout=20)
    assert (seen[0], seen[-1], list(idle)) == ("shop", "end", [])
    with pytest.raises(RuntimeError, match="has been stopped"):
        client.list(pods)


def test_another_thread_closes_a_watch(lab: allotment.Lab) -> None:
    events: list[allotment.WatchEvent] = []
    with lab.client.watch(PODS, revision=lab.client.list(PODS).revision) as watch:
        thread = threading.Thread(target=lambda: events.extend(watch))
        thread.start()
    thread.join(timeout=20)
    assert (thread.is_alive(), events, list(watch)) == (False, [], [])


def test_a_closed_watch_has_no_more_events(lab: allotment.Lab) -> None:
    maps = lab.resource("cm")
    watch = lab.client.watch(maps, revision=lab.client.list(maps).revision, timeout=60)
    watch.close()
    lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
    assert list(watch) == []


def test_a_watch_ends_at_its_timeout(lab: allotment.Lab) -> None:
    revision = lab.client.list(lab.resource("cm")).revision
    assert list(lab.client.watch(lab.resource("cm"), "kube-node-lease", revision=revision, timeout=0.01)) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kube": "1.20"}, r"^kube: expected one of 1\.34, .*, found '1\.20'"),
        ({"gates": {"Nope": True}}, "^gates: unrecognized feature gate: Nope"),
        ({"fleet": "dgx-z9"}, "dgx-z9"),
        ({"speed": 0}, "^speed: expected a positive number up to 1000000, found 0$"),
        ({"speed": 1e308}, "^speed: expected a positive number up to 1000000, found 1e\\+308$"),
        ({"speed": float("inf")}, "^speed: expected a positive number up to 1000000, found inf$"),
        ({"speed": float("nan")}, "^speed: expected a positive number up to 1000000, found nan$"),
        ({"without": ["schedular"]}, "unknown program 'schedular'"),
        ({"kubelet_roots": "/proc/none"}, "^kubelet_roots: /proc/none: "),
        ({"autoscale": "awz"}, r"^autoscale: 'awz' is neither a provider nor a file; did you mean aws\?$"),
        ({"autoscale": ["aws"]}, r"^autoscale: expected providers, catalog files or an Autoscale, found list; use"),
        ({"autoscale": "aws", "cloud": "*=burn"}, r"^cloud: '\*=burn': unknown fault 'burn'; expected TYPE\[:ZONE\]="),
        ({"cloud": ["*=slow:9"]}, r'^cloud: requires providers or catalog files as autoscale; use autoscale="aws"$'),
        ({"runtime": "docker"}, "^runtime: expected one of simulated, process, oci, found 'docker'$"),
        ({"images": "x.toml"}, '^images: not allowed with simulated containers; use runtime="process"$'),
        ({"runtime": "process", "images": "/none/x.toml"}, r"^images: /none/x\.toml: images file not found$"),
        ({"runtime": "process", "images": 7}, "^images: expected the path of a file, found int$"),
    ],
)
def test_an_unusable_argument_is_an_input_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(allotment.InputError, match=message):
        allotment.Lab(**arguments)


@pytest.mark.parametrize(
    ("manifest", "status"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "In_valid"}}, (422, "Invalid")),
        ({"kind": "Pod", "metadata": {"name": "a"}}, (0, "")),
    ],
)
def test_a_rejection_has_the_code_and_reason_of_the_api(
    lab: allotment.Lab, manifest: dict[str, Any], status: tuple[int, str]
) -> None:
    with pytest.raises(NotApplied) as error:
        lab.apply(manifest)
    assert (error.value.code, error.value.reason) == status


def test_drivers_of_other_processes_can_register_with_the_nodes() -> None:
    with tempfile.TemporaryDirectory() as folder, allotment.Lab("t4-4x-pcie", kubelet_roots=f"{folder}/k"):
        assert Path(folder, "k", "t4-4x-pcie-1", "plugins_registry").is_dir()
