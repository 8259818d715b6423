"""A node with the kubelet's own code for drivers: its watcher of sockets, its manager of claims.

The kubelet is ``tests/kube/kubelet``, made of the published module; scheduler and API server are real, drivers are
started as a user starts them. All of them may be killed.
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
from tests.waiting import wait_until

NODE: Final = "worker"
RESOURCES: Final = "/apis/resource.k8s.io/v1"
_PODS: Final = "/api/v1/namespaces/default/pods"
_CLAIMS: Final = f"{RESOURCES}/namespaces/default/resourceclaims"


@contextmanager
def real_plane(classes: Sequence[Tree]) -> Iterator[ApiServer]:
    """A control plane with the node, and for each DeviceClass a claim template of its name, for one device."""
    paths = programs()
    assert paths is not None, "make test-kube brings the programs"
    with plane(paths) as running:
        node = {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        ask(running, "POST", "/api/v1/nodes", node)
        ask(running, "PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})
        status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}}
        ask(running, "PATCH", f"/api/v1/nodes/{NODE}/status", status)
        for one in classes:
            ask(running, "POST", f"{RESOURCES}/deviceclasses", one)
            add_template(running, one["metadata"]["name"], {"deviceClassName": one["metadata"]["name"]})
        yield running


def add_template(kube: ApiServer, name: str, exactly: Tree) -> None:
    """A claim template for one request."""
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    ask(
        kube,
        "POST",
        f"{RESOURCES}/namespaces/default/resourceclaimtemplates",
        {"metadata": {"name": name}, "spec": spec},
    )


def built(name: str) -> Path:
    """A Go program of ours (``kubelet``, ``injection``), built once for each state of its source."""
    source = Path(__file__).parent / name
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.iterdir()))).hexdigest()[:16]
    program = cache() / f"{name}-{digest}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"NOT TESTED: the {name}, for there is no Go to build it with")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=program.parent) as text:
        part = Path(text) / name
        environment = {**os.environ, "GOEXPERIMENT": "nojsonv2", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(part), "."]
        made = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr[-2000:]
        part.replace(program)
    return program


class Host:
    """A node: the folder of its kubelet, and the two programs, which may be killed.

    ``driver``: the driver's words; where its node has its folders is added. ``environment``: the driver's, beyond ours.
    """

    def __init__(
        self, kube: ApiServer, folder: Path, driver: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.kube = kube
        self.folder = folder
        place = ["--node", NODE, "--kubelet-root", str(folder), "--cdi-root", str(folder / "cdi")]
        way = ["--kubeconfig", str(kube.kubeconfig), "--context", "real"]
        self._commands = {
            "kubelet": [str(built("kubelet")), str(kube.kubeconfig), NODE, str(folder)],
            "driver": [sys.executable, "-m", *driver, *place, *way],
        }
        self._environment = {**os.environ, **(environment or {})}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start ``kubelet`` or ``driver``; what it says goes into a file of its own."""
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open("ab") as err:
            self._running[name] = subprocess.Popen(self._commands[name], stdout=out, stderr=err, env=self._environment)

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        """End a program; its exit status."""
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(120)

    def close(self) -> None:
        """End all of them."""
        for name in tuple(self._running):
            with suppress(ProcessLookupError):
                self.stop(name)

    def told(self, pod: str) -> list[Tree]:
        """What the kubelet did for a pod."""
        lines = (self.folder / "kubelet.out").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["pod"] == pod]

    def until(self, true: Callable[[], Any], seconds: float = 120) -> Any:
        """Wait until something holds, and say what the programs said if it never does."""

        def told() -> str:
            return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in self._files())

        return wait_until(true, told, seconds)

    def specs(self) -> list[Tree]:
        """The CDI files that there are."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / "cdi").glob("*.json"))]

    def injected(self, names: Sequence[str]) -> Tree:
        """The OCI configuration of a container with these CDI devices, as containerd and CRI-O would make it."""
        bare = json.dumps({"ociVersion": "1.2.0", "process": {"args": ["env"], "cwd": "/"}, "root": {"path": "rootfs"}})
        command = [str(built("injection")), str(self.folder / "cdi"), *names]
        done = subprocess.run(command, input=bare, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        found: Tree = json.loads(done.stdout)
        return found

    def slices(self, driver: str) -> list[Tree]:
        """What the driver has published."""
        every: list[Tree] = ask(self.kube, "GET", f"{RESOURCES}/resourceslices")["items"]
        return [one for one in every if one["spec"]["driver"] == driver]

    def start_pod(self, name: str, template: str) -> None:
        """A pod with a claim of this template."""
        container = {"name": "main", "image": "registry.example/main", "resources": {"claims": [{"name": "gpu"}]}}
        claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
        pod = {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}
        ask(self.kube, "POST", _PODS, pod)

    def delete_pod(self, name: str) -> None:
        """Say that a pod is to end; :meth:`ended` waits for it."""
        ask(self.kube, "DELETE", f"{_PODS}/{name}")

    def ended(self, pod: str) -> None:
        """Wait until the kubelet has given back what the pod had."""
        self.until(lambda: self.told(pod)[-1].get("ended"))

    def _files(self) -> list[Path]:
        return sorted((*self.folder.glob("*.out"), *self.folder.glob("*.err")))

    def prepared(self, pod: str, *, times: int = 1) -> list[str]:
        """The names of the CDI devices that a pod's container gets, once a kubelet has prepared it so often."""

        def found() -> list[Tree] | None:
            events = [one["prepared"] for one in self.told(pod) if "prepared" in one]
            return events if len(events) >= times else None

        return list(self.until(found)[-1]["main"])


@contextmanager
def running(
    kube: ApiServer, driver: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Host]:
    """A node whose kubelet and driver run; in the end its pods and their claims go as they should."""
    here = Host(kube, folder, driver, environment)
    (folder / "plugins_registry").mkdir()
    try:
        here.start("kubelet")
        here.start("driver")
        yield here
        for pod in names(kube, _PODS):
            kube.ask("DELETE", f"{_PODS}/{pod}")
        here.until(lambda: not names(kube, _PODS) and not names(kube, _CLAIMS))
    finally:
        here.close()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    # No hyphen, at which screens would break the path.
    folder = Path(tempfile.mkdtemp(prefix="kub"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def ask(kube: ApiServer, method: str, path: str, body: Tree | None = None) -> Tree:
    """What the API server answers; an error is none that a test expects."""
    code, told = kube.ask(method, path, body)
    assert code < 300, told
    return told


def names(kube: ApiServer, path: str) -> list[str]:
    """Of the objects of a list."""
    return [str(item["metadata"]["name"]) for item in ask(kube, "GET", path)["items"]]
