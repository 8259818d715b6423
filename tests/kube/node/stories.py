"""What is done on the node, and what is seen there."""

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
from tests.kube.node.running import CDI, KUBELET, NODE, Node

Told: TypeAlias = Callable[[str], None]
Story: TypeAlias = Callable[[Node, Told], None]

_ROOT: Final = Path(__file__).parents[3]
_CHART: Final = _ROOT / "deploy" / "helm" / "allotment"
_DRIVERS: Final = "allotment-drivers"
_SCHEDULER: Final = "allotment-scheduler"
_NVIDIA: Final = "gpu.nvidia.com"
_AMD: Final = "gpu.amd.com"
_SMALL: Final = "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"
#: Says what it was given, and ends when it is told to.
_PROGRAM: Final = "env | grep -E 'ALLOTMENT|NVIDIA|AMD' | sort; trap 'exit 0' TERM; sleep infinity & wait"


def nvidia(node: Node, told: Told) -> None:
    """NVIDIA's driver from the chart, as docs/try-driver.md has it: claims, sharing, crashes, the end."""
    with_driver(node, told, "nvidia", "8xa100-40gb/dynamic-mig", "mig.nvidia.com")
    _verified(node, told, _NVIDIA)
    _given(node, told)
    _shared(node, told)
    _driver_killed(node, told)
    _kubelet_restarted(node, told)
    _replaced(node, told)
    without_driver(node, told, "nvidia", _NVIDIA)


def amd(node: Node, told: Told) -> None:
    """AMD's driver in the same way, for a pod."""
    with_driver(node, told, "amd", "mi300x-8x-oam/auto", "gpu.amd.com")
    exactly = {"deviceClassName": "gpu.amd.com", "capacity": {"requests": {"partitions": "1"}}}
    node.apply(_template("part", exactly), _pod("part", template="part"))
    told(f"a partition: {_said(node, 'part')}")
    _gone(node, told, _AMD, "pod/part")
    without_driver(node, told, "amd", _AMD)


def without_hardware(node: Node, told: Told) -> None:
    """Both drivers as they are for real hardware, NVIDIA's privileged, on a node that has none: they say so."""
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
        node.until(f"{driver} publishes that there is nothing", partial(_slices, node, driver))
        assert not any(one["spec"].get("devices") for one in _slices(node, driver)), "there is no such device here"
    said = [line for line in _driver_log(node).splitlines() if "no GPUs" in line]
    told("both drivers are ready and publish no device; NVIDIA's says:\n" + "\n".join(said))
    node.run("helm", "uninstall", "drivers", "--namespace", _DRIVERS, "--wait", "--timeout", "300s")
    node.kubectl("delete", "namespace", _DRIVERS, "--timeout=300s")
    _swept(node, told, _NVIDIA)
    _swept(node, told, _AMD)


def kustomize(node: Node, told: Told) -> None:
    """The overlay of kustomize for the same driver."""
    overlay = str(_ROOT / "deploy/kustomize/overlays/driver-nvidia-simulated")
    node.kubectl("apply", "-k", overlay)
    node.kubectl("label", "node", NODE, "allotment.dev/simulate=nvidia")
    _published(node, told, _NVIDIA)
    node.kubectl("label", "node", NODE, "allotment.dev/simulate-")
    node.kubectl("delete", "-k", overlay, "--timeout=300s")
    _swept(node, told, _NVIDIA)


def components(node: Node, told: Told) -> None:
    """All that runs anywhere, under the pod security standard "restricted": scheduler, exporter, annotator, doctor."""
    before = _objects(node)
    with_driver(node, told, "nvidia", "8xa100-40gb/dynamic-mig", "mig.nvidia.com")
    node.kubectl("create", "namespace", "allotment")
    node.kubectl("label", "namespace", "allotment", "pod-security.kubernetes.io/enforce=restricted")
    node.run(
        "helm", "install", "allotment", str(_CHART), "--namespace", "allotment", "--wait", "--timeout", "300s",
        "--set", "components.scheduler.enabled=true,reader.create=true",
    )  # fmt: skip
    told(node.kubectl("get", "pods", "--namespace", "allotment"))
    node.apply(_template("small", _small()), _pod("ours", template="small", schedulerName=_SCHEDULER))
    told(f"a pod that allotment-scheduler placed: {_said(node, 'ours')}")
    told(node.allot("explain", "pod/ours"))
    _refused(node, told)
    _measured(node, told)
    _asked_inside(node, told)
    node.kubectl("delete", "pod/ours", "pod/never", "resourceclaimtemplate/small", "resourceclaimtemplate/none")
    node.run("helm", "uninstall", "allotment", "--namespace", "allotment", "--wait", "--timeout", "300s")
    node.kubectl("delete", "namespace", "allotment", "--timeout=300s")
    without_driver(node, told, "nvidia", _NVIDIA)
    node.until(lambda: sorted(_objects(node) ^ before), lambda: _objects(node) == before)
    told(f"the cluster holds the {len(before)} objects that it held before")


STORIES: Final[Mapping[str, Story]] = {
    "nvidia": nvidia, "amd": amd, "kustomize": kustomize, "components": components, "no-hardware": without_hardware,
}  # fmt: skip


def with_driver(node: Node, told: Told, vendor: str, simulated: str, device_class: str) -> None:
    """Install the chart's driver as the page says, and wait until the node's devices are published."""
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
    _published(node, told, f"gpu.{vendor}.com")


def without_driver(node: Node, told: Told, vendor: str, driver: str) -> None:
    """Take the driver away as the page says, and see that nothing is left."""
    node.kubectl("label", "node", NODE, "allotment.dev/simulate-")
    node.run("helm", "uninstall", "drivers", "--namespace", _DRIVERS, "--wait", "--timeout", "300s")
    node.kubectl("delete", "namespace", _DRIVERS, "--timeout=300s")
    _swept(node, told, driver)


def _published(node: Node, told: Told, driver: str) -> None:
    node.until(f"{driver} publishes slices", lambda: _slices(node, driver))
    (pod,) = node.get("pods", "--namespace", _DRIVERS)["items"]
    node.kubectl("wait", "--namespace", _DRIVERS, "--for=condition=Ready", "pod", "--all", "--timeout=300s")
    node.until("the kubelet says registered", lambda: "registered" in _driver_log(node))
    devices = sum(len(one["spec"].get("devices", ())) for one in _slices(node, driver))
    told(f"{pod['metadata']['name']} is ready and registered: {len(_slices(node, driver))} slices, {devices} devices")


def _verified(node: Node, told: Told, driver: str) -> None:
    (socket,) = (KUBELET / "plugins_registry").glob(f"{driver}*-reg.sock")  # a pod's has its UID in its name
    said = node.allot("driver", "verify", str(socket))
    told(f"allot driver verify {socket}: {said.splitlines()[-1]}")


def _given(node: Node, told: Told) -> None:
    """A pod from a claim template, and what its container has."""
    node.apply(_template("small", _small()), _pod("small", template="small"))
    told(f"a pod with a small piece: {_said(node, 'small')}")
    (spec,) = _specs()
    told(f"its CDI file:\n{json.dumps(spec, indent=1)}")
    told(node.allot("explain", "pod/small"))
    _gone(node, told, _NVIDIA, "pod/small")


def _shared(node: Node, told: Told) -> None:
    """Two pods of one claim have the same device, and it stays until the second has ended."""
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "both"},
             "spec": {"devices": {"requests": [{"name": "gpu", "exactly": _small()}]}}}  # fmt: skip
    node.apply(claim, _pod("one", claim="both"), _pod("two", claim="both"))
    first, second = _said(node, "one"), _said(node, "two")
    assert first == second, (first, second)
    told(f"two pods of one claim have the same: {first}")
    node.kubectl("delete", "pod/one")
    assert len(_specs()) == 1, "the second pod still needs it"
    _gone(node, told, _NVIDIA, "pod/two", "resourceclaim/both")


def _driver_killed(node: Node, told: Told) -> None:
    """The driver is killed while a claim is prepared; it comes back, and that claim can be given up."""
    node.apply(_pod("before", template="small"))
    said = _said(node, "before")
    os.kill(_process(b"driver", b"nvidia"), signal.SIGKILL)
    node.until("the kubelet starts it again", lambda: _restarts(node) == 1)
    node.kubectl("wait", "--namespace", _DRIVERS, "--for=condition=Ready", "pod", "--all", "--timeout=300s")
    node.apply(_pod("after", template="small"))
    assert _said(node, "after") != said, "each has a device of its own"
    told("the driver was killed (SIGKILL) and is ready again: one restart, and the next pod has its device")
    _gone(node, told, _NVIDIA, "pod/before", "pod/after")


def _kubelet_restarted(node: Node, told: Told) -> None:
    """The kubelet is killed while a claim is prepared, and started again: the container runs on."""
    node.apply(_pod("running", template="small"))
    _said(node, "running")
    before = _container(node, "running")
    node.kube.stop("kubelet", signal.SIGKILL)
    node.start_kubelet()
    node.apply(_pod("next", template="small"))
    _said(node, "next")
    assert _container(node, "running") == before, "it was started again"
    told("the kubelet was killed and started again: the container runs on, and the next pod has its device")
    _gone(node, told, _NVIDIA, "pod/running", "pod/next")


def _replaced(node: Node, told: Told) -> None:
    """The DaemonSet is rolled over while a claim is prepared: the new driver gives it up."""
    node.apply(_pod("rolled", template="small"))
    _said(node, "rolled")
    node.kubectl("rollout", "restart", "daemonset", "--namespace", _DRIVERS)
    (name,) = node.kubectl("get", "daemonset", "--namespace", _DRIVERS, "-o", "name").split()
    node.kubectl("rollout", "status", name, "--namespace", _DRIVERS, "--timeout=300s")
    node.until("the old driver is gone", lambda: len(node.get("pods", "--namespace", _DRIVERS)["items"]) == 1)
    node.apply(_pod("newer", template="small"))
    _said(node, "newer")
    told("the DaemonSet was rolled over: the new driver serves")
    _gone(node, told, _NVIDIA, "pod/rolled", "pod/newer", "resourceclaimtemplate/small")


def _refused(node: Node, told: Told) -> None:
    """A pod that cannot be placed: the annotator's event, and the scheduler's."""
    exactly = {**_small(), "selectors": [{"cel": {"expression": "device.driver == 'nobody.example'"}}]}
    node.apply(_template("none", exactly), _pod("never", template="none"))

    def events() -> list[Tree]:
        found: list[Tree] = node.get("events.v1.events.k8s.io")["items"]
        return [one for one in found if one.get("reportingController", "").startswith("allotment")
                and one["regarding"]["name"] == "never"]  # fmt: skip

    (event, *_) = node.until("the annotator explains a pending pod", events)
    told(f"{event['reportingController']} on pod never: {event['note']}")


def _measured(node: Node, told: Told) -> None:
    """The exporter's metrics, over TLS, for an account that may get them."""
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
    told(f"the exporter's metrics, {len(lines)} lines:\n" + "\n".join(lines[:3]))
    node.kubectl("delete", "clusterrole/scrape", "clusterrolebinding/scrape")


def _asked_inside(node: Node, told: Told) -> None:
    """``allot doctor`` in a pod, as an account that may read."""
    role = next(name for name in node.kubectl("get", "clusterroles", "-o", "name").split() if "reader" in name)
    node.kubectl("create", "serviceaccount", "asker", "--namespace", "allotment")
    node.kubectl(
        "create", "clusterrolebinding", "asker", "--serviceaccount=allotment:asker", f"--clusterrole={Path(role).name}"
    )
    container = {
        "name": "main", "image": images.OURS, "args": ["doctor"], "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    }  # fmt: skip
    node.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asker", "namespace": "allotment"},
        "spec": {"restartPolicy": "Never", "serviceAccountName": "asker", "containers": [container],
                 "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}},
    })  # fmt: skip
    node.until("allot doctor ends in a pod", lambda: node.get("pod/asker", "--namespace", "allotment")["status"][
        "phase"] in ("Succeeded", "Failed"))  # fmt: skip
    told(f"allot doctor, in a pod:\n{node.kubectl('logs', 'asker', '--namespace', 'allotment')}")
    node.kubectl("delete", "clusterrolebinding/asker")


def _small() -> Tree:
    return {"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": _SMALL}}]}


def _template(name: str, exactly: Tree) -> Tree:
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"spec": {"devices": {"requests": requests}}}}  # fmt: skip


def _pod(name: str, *, template: str = "", claim: str = "", **more: str) -> Tree:
    """A pod that says what it was given."""
    of = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    container = {"name": "main", "image": images.BASE, "command": ["sh", "-c", _PROGRAM],
                 "resources": {"claims": [{"name": "gpu"}]}}  # fmt: skip
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **of}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _said(node: Node, pod: str) -> str:
    """What the pod's container found in its environment."""
    node.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=300s")
    said: str = node.until(f"{pod} says what it has", lambda: node.kubectl("logs", pod))
    return ", ".join(said.splitlines())


def _gone(node: Node, told: Told, driver: str, *objects: str) -> None:
    """Delete pods with their claims, and see that the driver gave up everything."""
    node.kubectl("delete", *objects, "--timeout=300s")
    node.until("CDI files go with their claims", lambda: not _specs())
    checkpoint = (KUBELET / "plugins" / driver / "checkpoint.json").read_text()
    node.until("no claim is left", lambda: not node.get("resourceclaims")["items"])
    told(f"deleted {', '.join(objects)}: no CDI file, no claim; the driver's checkpoint: {checkpoint.strip()[:200]}")


def _swept(node: Node, told: Told, driver: str) -> None:
    """Nothing of the driver is left in the cluster or on the node but what the page tells of."""
    node.until("the kubelet removes its slices", lambda: not _slices(node, driver))
    places = (KUBELET / "plugins_registry", CDI, KUBELET / "plugins")
    left = [path for place in places if place.exists() for path in sorted(place.rglob("*")) if driver in str(path)]
    # The checkpoint stays, because nobody can tell an end from an update.
    wrong = [path for path in left if path.is_socket() or not path.is_relative_to(KUBELET / "plugins" / driver)]
    assert not wrong, f"left on the node: {wrong}"
    told(f"uninstalled: no slice, no socket and no CDI file; left on the node: {', '.join(map(str, left[:3]))} …")


def _slices(node: Node, driver: str) -> list[Tree]:
    return [one for one in node.get("resourceslices")["items"] if one["spec"]["driver"] == driver]


def _specs() -> list[Tree]:
    return [json.loads(path.read_text()) for path in sorted(CDI.glob("*.json"))]


def _driver_log(node: Node) -> str:
    return node.tried("kubectl", "logs", "--namespace", _DRIVERS, "-l", "app.kubernetes.io/instance", "--tail=-1")[0]


def _restarts(node: Node) -> int:
    (pod,) = node.get("pods", "--namespace", _DRIVERS)["items"]
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def _container(node: Node, pod: str) -> str:
    return str(node.get(f"pod/{pod}")["status"]["containerStatuses"][0]["containerID"])


def _process(*words: bytes) -> int:
    """The process of the machine with these words on its command line."""

    def line(path: Path) -> list[bytes]:
        try:
            return (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return []

    found = [int(path.name) for path in Path("/proc").glob("[0-9]*") if set(words) <= set(line(path))]
    assert len(found) == 1, found
    return found[0]


def _objects(node: Node) -> set[str]:
    """All objects of all kinds but those that come and go by themselves."""
    kinds = set(node.kubectl("api-resources", "--verbs=list", "-o", "name").split()) - {
        "events",
        "events.events.k8s.io",
    }
    each = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}"
    found = node.kubectl("get", ",".join(sorted(kinds)), "-A", "-o", f"jsonpath={each}").split("\n")
    return {one for one in found if one and not one.startswith("Lease kube-node-lease/")}  # it says that a node lives
