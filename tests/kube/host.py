"""A node with the kubelet's own code for drivers: its plugin watcher and its claim manager.

The kubelet is ``tests/kube/kubelet``, built from the published module; scheduler and API server are Kubernetes' own,
and drivers are started by the documented command. All of them may be killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.model.trees import Tree
from bench.kube_programs import cache, programs
from bench.real_kube import ApiServer, plane
from tests.polling import wait_until

NODE: Final = "worker"
RESOURCES: Final = "/apis/resource.k8s.io/v1"
_PODS: Final = "/api/v1/namespaces/default/pods"
_CLAIMS: Final = f"{RESOURCES}/namespaces/default/resourceclaims"


@contextmanager
def control_plane_with_node(classes: Sequence[Tree]) -> Iterator[ApiServer]:
    """Run a control plane with the node, and for each DeviceClass a claim template of the same name, for one device."""
    paths = programs()
    assert paths is not None, "make test-kube builds the programs"
    with plane(paths) as running:
        node = {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        request(running, "POST", "/api/v1/nodes", node)
        request(running, "PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})
        status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}}
        request(running, "PATCH", f"/api/v1/nodes/{NODE}/status", status)
        for class_ in classes:
            request(running, "POST", f"{RESOURCES}/deviceclasses", class_)
            add_template(running, class_["metadata"]["name"], {"deviceClassName": class_["metadata"]["name"]})
        yield running


def add_template(kube: ApiServer, name: str, exactly: Tree) -> None:
    """Create a claim template with one request."""
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    request(
        kube,
        "POST",
        f"{RESOURCES}/namespaces/default/resourceclaimtemplates",
        {"metadata": {"name": name}, "spec": spec},
    )


def build_program(name: str) -> Path:
    """Build one of the project's Go programs (``kubelet``, ``injection``), once for each state of its source."""
    source = Path(__file__).parent / name
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.iterdir()))).hexdigest()[:16]
    program = cache() / f"{name}-{digest}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"NOT TESTED: the {name}: Go not found, which is required to build it")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=program.parent) as text:
        part = Path(text) / name
        environment = {**os.environ, "GOEXPERIMENT": "nojsonv2", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(part), "."]
        created = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
        assert created.returncode == 0, created.stderr[-2000:]
        part.replace(program)
    return program


class Host:
    """A node: the folder of its kubelet, and the kubelet and driver processes, which may be killed.

    ``driver``: the arguments that start the driver; the options for the node's folders are appended. ``environment``:
    additional variables of the driver.
    """

    def __init__(
        self, kube: ApiServer, folder: Path, driver: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.kube = kube
        self.folder = folder
        place = ["--node", NODE, "--kubelet-root", str(folder), "--cdi-root", str(folder / "cdi")]
        options = ["--kubeconfig", str(kube.kubeconfig), "--context", "real"]
        self._commands = {
            "kubelet": [str(build_program("kubelet")), str(kube.kubeconfig), NODE, str(folder)],
            "driver": [sys.executable, "-m", *driver, *place, *options],
        }
        self._environment = {**os.environ, **(environment or {})}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start ``kubelet`` or ``driver``, with its output in files of its own."""
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open("ab") as err:
            self._running[name] = subprocess.Popen(self._commands[name], stdout=out, stderr=err, env=self._environment)

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        """Send a program a signal and return its exit status."""
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(120)

    def close(self) -> None:
        """Kill the programs that run."""
        for name in tuple(self._running):
            with suppress(ProcessLookupError):
                self.stop(name)

    def pod_events(self, pod: str) -> list[Tree]:
        """The events that the kubelet reported for a pod."""
        lines = (self.folder / "kubelet.out").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["pod"] == pod]

    def wait_for(self, true: Callable[[], Any], seconds: float = 120) -> Any:
        """Wait until a condition holds; the error at the timeout shows the programs' output."""

        def logs() -> str:
            return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in self._files())

        return wait_until(true, logs, seconds)

    def specs(self) -> list[Tree]:
        """The existing CDI specs."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "cdi").glob("*.json"))]

    def inject(self, names: Sequence[str]) -> Tree:
        """The OCI configuration of a container with these CDI devices, as containerd and CRI-O make it."""
        bare = json.dumps({"ociVersion": "1.2.0", "process": {"args": ["env"], "cwd": "/"}, "root": {"path": "rootfs"}})
        command = [str(build_program("injection")), str(self.folder / "cdi"), *names]
        done = subprocess.run(command, input=bare, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        found: Tree = json.loads(done.stdout)
        return found

    def slices(self, driver: str) -> list[Tree]:
        """The slices that a driver has published."""
        every: list[Tree] = request(self.kube, "GET", f"{RESOURCES}/resourceslices")["items"]
        return [item for item in every if item["spec"]["driver"] == driver]

    def start_pod(self, name: str, template: str) -> None:
        """Create a pod with a claim from this template."""
        container = {"name": "main", "image": "registry.example/main", "resources": {"claims": [{"name": "gpu"}]}}
        claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
        pod = {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}
        request(self.kube, "POST", _PODS, pod)

    def delete_pod(self, name: str) -> None:
        """Request the deletion of a pod; :meth:`ended` waits for it."""
        request(self.kube, "DELETE", f"{_PODS}/{name}")

    def wait_unprepared(self, pod: str) -> None:
        """Wait until the kubelet has unprepared the pod's claims."""
        self.wait_for(lambda: self.pod_events(pod)[-1].get("ended"))

    def _files(self) -> list[Path]:
        return sorted((*self.folder.glob("*.out"), *self.folder.glob("*.err")))

    def wait_prepared(self, pod: str, *, times: int = 1) -> list[str]:
        """The CDI device names of a pod's container, once a kubelet has prepared it ``times`` times."""

        def found() -> list[Tree] | None:
            events = [event["prepared"] for event in self.pod_events(pod) if "prepared" in event]
            return events if len(events) >= times else None

        return list(self.wait_for(found)[-1]["main"])


@contextmanager
def running_host(
    kube: ApiServer, driver: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Host]:
    """Run a node with kubelet and driver; at the end delete its pods and wait until their claims are gone."""
    host = Host(kube, folder, driver, environment)
    (folder / "plugins_registry").mkdir()
    try:
        host.start("kubelet")
        host.start("driver")
        yield host
        for pod in list_names(kube, _PODS):
            kube.send_request("DELETE", f"{_PODS}/{pod}")
        host.wait_for(lambda: not list_names(kube, _PODS) and not list_names(kube, _CLAIMS))
    finally:
        host.close()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary folder whose path is short enough for Unix sockets."""
    # No hyphen, because wrapped help output would break the path there.
    folder = Path(tempfile.mkdtemp(prefix="kub"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def request(kube: ApiServer, method: str, path: str, body: Tree | None = None) -> Tree:
    """Send a request that is expected to succeed and return the answer's body."""
    code, answer = kube.send_request(method, path, body)
    assert code < 300, answer
    return answer


def list_names(kube: ApiServer, path: str) -> list[str]:
    """The names of the objects of a list."""
    return [str(item["metadata"]["name"]) for item in request(kube, "GET", path)["items"]]
