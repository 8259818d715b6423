"""The scenarios that run on the node, and what they must observe."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from allotment.model.trees import Tree
from tests.kube.node import images
from tests.kube.node.cluster_node import CDI, KUBELET, NODE, Node

Report: TypeAlias = Callable[[str], None]
Scenario: TypeAlias = Callable[[Node, Report], None]

_ROOT: Final = Path(__file__).parents[3]
_CHART: Final = _ROOT / "deploy" / "helm" / "allotment"
_DRIVERS: Final = "allotment-drivers"
_SCHEDULER: Final = "allotment-scheduler"
_NVIDIA: Final = "gpu.nvidia.com"
_AMD: Final = "gpu.amd.com"
_SMALL: Final = "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"
#: Prints its environment, and ends on SIGTERM.
_PROGRAM: Final = "env | grep -E 'ALLOTMENT|NVIDIA|AMD' | sort; trap 'exit 0' TERM; sleep infinity & wait"


def nvidia(node: Node, report: Report) -> None:
    """NVIDIA's driver from the chart, as in docs/how-to/try-driver.md: claims, sharing, crashes, uninstallation."""
    install_driver(node, report, "nvidia", "8xa100-40gb/dynamic-mig", "mig.nvidia.com")
    _check_driver_verify(node, report, _NVIDIA)
    _check_template_pod(node, report)
    _check_shared_claim(node, report)
    _check_driver_killed(node, report)
    _check_kubelet_restart(node, report)
    _check_rollout(node, report)
    uninstall_driver(node, report, "nvidia", _NVIDIA)


def amd(node: Node, report: Report) -> None:
    """AMD's driver in the same way, with one pod."""
    install_driver(node, report, "amd", "mi300x-8x-oam/auto", "gpu.amd.com")
    exactly = {"deviceClassName": "gpu.amd.com", "capacity": {"requests": {"partitions": "1"}}}
    node.apply(_template("part", exactly), _pod("part", template="part"))
    report(f"a partition: {_pod_environment(node, 'part')}")
    _check_unprepared(node, report, _AMD, "pod/part")
    uninstall_driver(node, report, "amd", _AMD)


def without_hardware(node: Node, report: Report) -> None:
    """Both drivers without simulation, NVIDIA's privileged, on a node without GPUs: they report that there are none."""
    node.kubectl("create", "namespace", _DRIVERS)
    node.kubectl("label", "namespace", _DRIVERS, "pod-security.kubernetes.io/enforce=privileged")
    node.kubectl(
        "label", "node", NODE, *(f"feature.node.kubernetes.io/pci-{each}.present=true" for each in ("10de", "1002"))
    )
    node.run(
        "helm", "install", "drivers", str(_CHART), "--namespace", _DRIVERS, "--wait", "--timeout", "300s",
        "--set", "components.exporter.enabled=false,components.annotator.enabled=false",
        "--set", "components.driver.nvidia.enabled=true,components.driver.amd.enabled=true",
    )  # fmt: skip
    for driver in (_NVIDIA, _AMD):
        node.wait_for(f"{driver} publishes that there is nothing", partial(_slices, node, driver))
        assert not any(slice_["spec"].get("devices") for slice_ in _slices(node, driver)), (
            "there is no such device here"
        )
    lines = [line for line in _driver_log(node).splitlines() if "no GPUs" in line]
    report("both drivers are ready and publish no device; NVIDIA's says:\n" + "\n".join(lines))
    node.run("helm", "uninstall", "drivers", "--namespace", _DRIVERS, "--wait", "--timeout", "300s")
    node.kubectl("delete", "namespace", _DRIVERS, "--timeout=300s")
    _check_uninstalled(node, report, _NVIDIA)
    _check_uninstalled(node, report, _AMD)


def kustomize(node: Node, report: Report) -> None:
    """The kustomize overlay of the same driver."""
    overlay = str(_ROOT / "deploy/kustomize/overlays/driver-nvidia-simulated")
    node.kubectl("apply", "-k", overlay)
    node.kubectl("label", "node", NODE, "allotment.dev/simulate=nvidia")
    _check_published(node, report, _NVIDIA)
    node.kubectl("label", "node", NODE, "allotment.dev/simulate-")
    node.kubectl("delete", "-k", overlay, "--timeout=300s")
    _check_uninstalled(node, report, _NVIDIA)


def components(node: Node, report: Report) -> None:
    """The other components under the pod security standard "restricted": scheduler, exporter, annotator, doctor."""
    before = _objects(node)
    install_driver(node, report, "nvidia", "8xa100-40gb/dynamic-mig", "mig.nvidia.com")
    node.kubectl("create", "namespace", "allotment")
    node.kubectl("label", "namespace", "allotment", "pod-security.kubernetes.io/enforce=restricted")
    node.run(
        "helm", "install", "allotment", str(_CHART), "--namespace", "allotment", "--wait", "--timeout", "300s",
        "--set", "components.scheduler.enabled=true,reader.create=true",
    )  # fmt: skip
    report(node.kubectl("get", "pods", "--namespace", "allotment"))
    node.apply(_template("small", _small()), _pod("scheduled", template="small", schedulerName=_SCHEDULER))
    report(f"a pod that allotment-scheduler placed: {_pod_environment(node, 'scheduled')}")
    report(node.allot("explain", "pod/scheduled"))
    _check_unschedulable(node, report)
    _check_metrics(node, report)
    _check_doctor_in_pod(node, report)
    node.kubectl("delete", "pod/scheduled", "pod/never", "resourceclaimtemplate/small", "resourceclaimtemplate/none")
    node.run("helm", "uninstall", "allotment", "--namespace", "allotment", "--wait", "--timeout", "300s")
    node.kubectl("delete", "namespace", "allotment", "--timeout=300s")
    uninstall_driver(node, report, "nvidia", _NVIDIA)
    node.wait_for(lambda: sorted(_objects(node) ^ before), lambda: _objects(node) == before)
    report(f"the cluster holds the {len(before)} objects that it held before")


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "nvidia": nvidia, "amd": amd, "kustomize": kustomize, "components": components, "no-hardware": without_hardware,
}  # fmt: skip


def install_driver(node: Node, report: Report, vendor: str, simulated: str, device_class: str) -> None:
    """Install the chart's driver as the page describes, and wait until the node's devices are published."""
    node.kubectl("create", "namespace", _DRIVERS)
    node.kubectl("label", "namespace", _DRIVERS, "pod-security.kubernetes.io/enforce=privileged")
    node.run(
        "helm", "install", "drivers", str(_CHART), "--namespace", _DRIVERS,
        "--set", "components.exporter.enabled=false,components.annotator.enabled=false",
        "--set", f"deviceClasses.{vendor}=true",
        "--set", f"components.driver.{vendor}.enabled=true,components.driver.{vendor}.simulate={simulated}",
    )  # fmt: skip
    node.kubectl("label", "node", NODE, f"allotment.dev/simulate={vendor}")
    node.kubectl("get", "deviceclass", device_class)
    _check_published(node, report, f"gpu.{vendor}.com")


def uninstall_driver(node: Node, report: Report, vendor: str, driver: str) -> None:
    """Uninstall the driver as the page describes, and check that nothing is left."""
    node.kubectl("label", "node", NODE, "allotment.dev/simulate-")
    node.run("helm", "uninstall", "drivers", "--namespace", _DRIVERS, "--wait", "--timeout", "300s")
    node.kubectl("delete", "namespace", _DRIVERS, "--timeout=300s")
    _check_uninstalled(node, report, driver)


def _check_published(node: Node, report: Report, driver: str) -> None:
    node.wait_for(f"{driver} publishes slices", lambda: _slices(node, driver))
    (pod,) = node.get("pods", "--namespace", _DRIVERS)["items"]
    node.kubectl("wait", "--namespace", _DRIVERS, "--for=condition=Ready", "pod", "--all", "--timeout=300s")
    node.wait_for("the kubelet says registered", lambda: "registered" in _driver_log(node))
    devices = sum(len(slice_["spec"].get("devices", ())) for slice_ in _slices(node, driver))
    report(f"{pod['metadata']['name']} is ready and registered: {len(_slices(node, driver))} slices, {devices} devices")


def _check_driver_verify(node: Node, report: Report, driver: str) -> None:
    # the directory of a pod has its UID in its name
    (socket,) = (KUBELET / "plugins_registry").glob(f"{driver}*-reg.sock")
    output = node.allot("driver", "verify", str(socket))
    report(f"allot driver verify {socket}: {output.splitlines()[-1]}")


def _check_template_pod(node: Node, report: Report) -> None:
    """A pod with a claim from a template gets its device."""
    node.apply(_template("small", _small()), _pod("small", template="small"))
    report(f"a pod with a MIG device: {_pod_environment(node, 'small')}")
    (spec,) = _specs()
    report(f"its CDI file:\n{json.dumps(spec, indent=1)}")
    report(node.allot("explain", "pod/small"))
    _check_unprepared(node, report, _NVIDIA, "pod/small")


def _check_shared_claim(node: Node, report: Report) -> None:
    """Two pods of one claim get the same device, which stays prepared until the second has ended."""
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "both"},
             "spec": {"devices": {"requests": [{"name": "gpu", "exactly": _small()}]}}}  # fmt: skip
    node.apply(claim, _pod("one", claim="both"), _pod("two", claim="both"))
    first, second = _pod_environment(node, "one"), _pod_environment(node, "two")
    assert first == second, (first, second)
    report(f"two pods of one claim have the same device: {first}")
    node.kubectl("delete", "pod/one")
    assert len(_specs()) == 1, "the second pod still needs it"
    _check_unprepared(node, report, _NVIDIA, "pod/two", "resourceclaim/both")


def _check_driver_killed(node: Node, report: Report) -> None:
    """The driver is killed while a claim is prepared; after its restart, that claim can be unprepared."""
    node.apply(_pod("before", template="small"))
    environment = _pod_environment(node, "before")
    os.kill(_process(b"driver", b"nvidia"), signal.SIGKILL)
    node.wait_for("the kubelet restarts it", lambda: _restarts(node) == 1)
    node.kubectl("wait", "--namespace", _DRIVERS, "--for=condition=Ready", "pod", "--all", "--timeout=300s")
    node.apply(_pod("after", template="small"))
    assert _pod_environment(node, "after") != environment, "each has a device of its own"
    report("the driver was killed (SIGKILL) and is ready again: one restart, and the next pod has its device")
    _check_unprepared(node, report, _NVIDIA, "pod/before", "pod/after")


def _check_kubelet_restart(node: Node, report: Report) -> None:
    """The kubelet is killed while a claim is prepared, and restarted: the container keeps running."""
    node.apply(_pod("running", template="small"))
    _pod_environment(node, "running")
    before = _container(node, "running")
    node.kube.stop("kubelet", signal.SIGKILL)
    node.start_kubelet()
    node.apply(_pod("next", template="small"))
    _pod_environment(node, "next")
    assert _container(node, "running") == before, "it was restarted"
    report("the kubelet was killed and restarted: the container keeps running, and the next pod has its device")
    _check_unprepared(node, report, _NVIDIA, "pod/running", "pod/next")


def _check_rollout(node: Node, report: Report) -> None:
    """The DaemonSet is rolled out again while a claim is prepared: the new driver unprepares it."""
    node.apply(_pod("rolled", template="small"))
    _pod_environment(node, "rolled")
    node.kubectl("rollout", "restart", "daemonset", "--namespace", _DRIVERS)
    (name,) = node.kubectl("get", "daemonset", "--namespace", _DRIVERS, "-o", "name").split()
    node.kubectl("rollout", "status", name, "--namespace", _DRIVERS, "--timeout=300s")
    node.wait_for(
        "the old driver's pod is deleted", lambda: len(node.get("pods", "--namespace", _DRIVERS)["items"]) == 1
    )
    node.apply(_pod("newer", template="small"))
    _pod_environment(node, "newer")
    report("the DaemonSet was rolled out again: the new driver serves")
    _check_unprepared(node, report, _NVIDIA, "pod/rolled", "pod/newer", "resourceclaimtemplate/small")


def _check_unschedulable(node: Node, report: Report) -> None:
    """A pod that cannot be placed gets the events of the annotator and of the scheduler."""
    exactly = {**_small(), "selectors": [{"cel": {"expression": "device.driver == 'nobody.example'"}}]}
    node.apply(_template("none", exactly), _pod("never", template="none"))

    def events() -> list[Tree]:
        found: list[Tree] = node.get("events.v1.events.k8s.io")["items"]
        return [item for item in found if item.get("reportingController", "").startswith("allotment")
                and item["regarding"]["name"] == "never"]  # fmt: skip

    (event, *_) = node.wait_for("the annotator explains a pending pod", events)
    report(f"{event['reportingController']} on pod never: {event['note']}")


def _check_metrics(node: Node, report: Report) -> None:
    """The exporter serves metrics over TLS to an account that is allowed to get them."""
    where = "app.kubernetes.io/component=exporter"
    (pod,) = node.get("pods", "--namespace", "allotment", "-l", where)["items"]
    account = pod["spec"]["serviceAccountName"]
    node.apply(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "scrape"},
         "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "scrape"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"},
         "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "allotment"}]},
    )  # fmt: skip
    token = node.kubectl("create", "token", account, "--namespace", "allotment").strip()
    url = f"https://{pod['status']['podIP']}:8443/metrics"
    text = node.run("curl", "--silent", "--fail", "--insecure", "--header", f"Authorization: Bearer {token}", url)
    lines = [line for line in text.splitlines() if line.startswith(("dra_", "allotment_"))]
    report(f"the exporter's metrics, {len(lines)} lines:\n" + "\n".join(lines[:3]))
    node.kubectl("delete", "clusterrole/scrape", "clusterrolebinding/scrape")


def _check_doctor_in_pod(node: Node, report: Report) -> None:
    """``allot doctor`` in a pod, with an account that is allowed to read."""
    role = next(name for name in node.kubectl("get", "clusterroles", "-o", "name").split() if "reader" in name)
    node.kubectl("create", "serviceaccount", "asker", "--namespace", "allotment")
    node.kubectl(
        "create", "clusterrolebinding", "asker", "--serviceaccount=allotment:asker", f"--clusterrole={Path(role).name}"
    )
    container = {
        "name": "main", "image": images.ALLOTMENT, "args": ["doctor"], "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    }  # fmt: skip
    node.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asker", "namespace": "allotment"},
        "spec": {"restartPolicy": "Never", "serviceAccountName": "asker", "containers": [container],
                 "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}},
    })  # fmt: skip
    node.wait_for("allot doctor ends in a pod", lambda: node.get("pod/asker", "--namespace", "allotment")["status"][
        "phase"] in ("Succeeded", "Failed"))  # fmt: skip
    report(f"allot doctor, in a pod:\n{node.kubectl('logs', 'asker', '--namespace', 'allotment')}")
    node.kubectl("delete", "clusterrolebinding/asker")


def _small() -> Tree:
    return {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": _SMALL}}]}


def _template(name: str, exactly: Tree) -> Tree:
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"spec": {"devices": {"requests": requests}}}}  # fmt: skip


def _pod(name: str, *, template: str = "", claim: str = "", **more: str) -> Tree:
    """A pod that prints its environment."""
    of = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    container = {"name": "main", "image": images.BASE, "command": ["sh", "-c", _PROGRAM],
                 "resources": {"claims": [{"name": "gpu"}]}}  # fmt: skip
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **of}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _pod_environment(node: Node, pod: str) -> str:
    """The environment of the pod's container, from its log."""
    node.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=300s")
    output: str = node.wait_for(f"{pod} prints its environment", lambda: node.kubectl("logs", pod))
    return ", ".join(output.splitlines())


def _check_unprepared(node: Node, report: Report, driver: str, *objects: str) -> None:
    """Delete pods with their claims, and check that the driver unprepared all of them."""
    node.kubectl("delete", *objects, "--timeout=300s")
    node.wait_for("CDI files go with their claims", lambda: not _specs())
    checkpoint = (KUBELET / "plugins" / driver / "checkpoint.json").read_text()
    node.wait_for("no claim is left", lambda: not node.get("resourceclaims")["items"])
    report(f"deleted {', '.join(objects)}: no CDI file, no claim; the driver's checkpoint: {checkpoint.strip()[:200]}")


def _check_uninstalled(node: Node, report: Report, driver: str) -> None:
    """Check that the driver left nothing in the cluster or on the node, except for what the page lists."""
    node.wait_for("the kubelet removes its slices", lambda: not _slices(node, driver))
    places = (KUBELET / "plugins_registry", CDI, KUBELET / "plugins")
    remaining = [path for place in places if place.exists() for path in sorted(place.rglob("*")) if driver in str(path)]
    # The checkpoint stays, because a driver cannot distinguish its removal from an update.
    wrong = [path for path in remaining if path.is_socket() or not path.is_relative_to(KUBELET / "plugins" / driver)]
    assert not wrong, f"left on the node: {wrong}"
    report(
        f"uninstalled: no slice, no socket and no CDI file; left on the node: {', '.join(map(str, remaining[:3]))} …"
    )


def _slices(node: Node, driver: str) -> list[Tree]:
    return [item for item in node.get("resourceslices")["items"] if item["spec"]["driver"] == driver]


def _specs() -> list[Tree]:
    return [json.loads(path.read_text()) for path in sorted(CDI.glob("*.json"))]


def _driver_log(node: Node) -> str:
    return node.run_unchecked(
        "kubectl", "logs", "--namespace", _DRIVERS, "-l", "app.kubernetes.io/instance", "--tail=-1"
    )[0]


def _restarts(node: Node) -> int:
    (pod,) = node.get("pods", "--namespace", _DRIVERS)["items"]
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def _container(node: Node, pod: str) -> str:
    return str(node.get(f"pod/{pod}")["status"]["containerStatuses"][0]["containerID"])


def _process(*arguments: bytes) -> int:
    """The node's process with these strings on its command line."""

    def line(path: Path) -> list[bytes]:
        try:
            return (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return []

    found = [int(path.name) for path in Path("/proc").glob("[0-9]*") if set(arguments) <= set(line(path))]
    assert len(found) == 1, found
    return found[0]


def _objects(node: Node) -> set[str]:
    """All objects of all kinds, except those that change without any action."""
    kinds = set(node.kubectl("api-resources", "--verbs=list", "-o", "name").split()) - {
        "events",
        "events.events.k8s.io",
    }
    each = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}"
    found = node.kubectl("get", ",".join(sorted(kinds)), "-A", "-o", f"jsonpath={each}").split("\n")
    return {
        item for item in found if item and not item.startswith("Lease kube-node-lease/")
    }  # it is the node's heartbeat
