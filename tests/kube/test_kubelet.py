"""Our driver framework and the kubelet's own code for drivers: its watcher of sockets, its manager of claims.

The kubelet is ``tests/kube/kubelet``, made of the published module; scheduler and API server are real, the driver is
``allot driver run amd`` as a user starts it, on a folder that holds what the kernel shows of eight MI300X.
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
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.drivers.amd.simulated.tree import write
from allotment.fleet import hardware, parse_mode
from allotment.fleet.amd import gpus_of
from bench.kube_programs import cache
from bench.real_kube import ApiServer, plane, programs

Tree = dict[str, Any]

NODE: Final = "real"
DRIVER: Final = "gpu.amd.com"
SOURCE: Final = Path(__file__).parent / "kubelet"
RESOURCES: Final = "/apis/resource.k8s.io/v1"
TEMPLATE: Final[Tree] = {
    "metadata": {"name": "one"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
}


def built() -> Path:
    """The kubelet's program, built once for each state of its source."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.iterdir()))).hexdigest()[:16]
    program = cache() / f"kubelet-{digest}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip("NOT TESTED: the kubelet, for there is no Go to build it with")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=program.parent) as text:
        part = Path(text) / "kubelet"
        environment = {**os.environ, "GOEXPERIMENT": "nojsonv2", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(part), "."]
        made = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr[-2000:]
        part.replace(program)
    return program


class Host:
    """A node: the folder of its kubelet, what its kernel shows, and the two programs, which may be killed."""

    def __init__(self, kube: ApiServer, folder: Path, kubelet: Path) -> None:
        self.kube = kube
        self.folder = folder
        self._commands = {
            "kubelet": [str(kubelet), str(kube.kubeconfig), NODE, str(folder)],
            "driver": [
                sys.executable, "-m", "allotment.cli.main", "driver", "run", "amd", "--node", NODE, "--driver-root",
                str(folder / "root"), "--kubelet-root", str(folder), "--cdi-root", str(folder / "cdi"),
                "--kubeconfig", str(kube.kubeconfig), "--context", "real",
            ],
        }  # fmt: skip
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start ``kubelet`` or ``driver``; what it says goes into a file of its own."""
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open("ab") as err:
            self._running[name] = subprocess.Popen(self._commands[name], stdout=out, stderr=err)

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        """End a program; its exit status."""
        process = self._running.pop(name)
        process.send_signal(how)
        return process.wait(20)

    def close(self) -> None:
        """End all of them."""
        for name in tuple(self._running):
            with suppress(ProcessLookupError):
                self.stop(name)

    def told(self, pod: str) -> list[Tree]:
        """What the kubelet did for a pod."""
        lines = (self.folder / "kubelet.out").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["pod"] == pod]

    def until(self, true: Callable[[], Any], seconds: float = 30) -> Any:
        """Wait until something holds, and say what the programs said if it never does."""
        deadline = time.monotonic() + seconds
        while not (found := true()):
            if time.monotonic() > deadline:
                said = [f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in self._files()]
                raise AssertionError("\n".join(["it did not come true in time", *said]))
            time.sleep(0.05)
        return found

    def _files(self) -> list[Path]:
        return sorted((*self.folder.glob("*.out"), *self.folder.glob("*.err")))

    def prepared(self, pod: str) -> list[str]:
        """The names of the CDI devices that a pod's container gets, once it gets some."""
        found = self.until(lambda: [one["prepared"] for one in self.told(pod) if "prepared" in one])
        return list(found[-1]["main"])


@pytest.fixture(scope="module")
def kube() -> Iterator[ApiServer]:
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
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        of_driver = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
        ask(running, "POST", f"{RESOURCES}/deviceclasses", of_driver)
        ask(running, "POST", f"{RESOURCES}/namespaces/default/resourceclaimtemplates", TEMPLATE)
        yield running


@pytest.fixture
def host(kube: ApiServer) -> Iterator[Host]:
    """A node whose kubelet and driver run."""
    folder = Path(tempfile.mkdtemp(prefix="kl-"))  # a socket's path must be short
    here = Host(kube, folder, built())
    machine = hardware("mi300x-8x-oam")
    write(gpus_of(machine, NODE, parse_mode("", machine)), folder / "root", machine.accelerator.gfx, 8)
    (folder / "plugins_registry").mkdir()
    try:
        here.start("kubelet")
        here.start("driver")
        yield here
        for pod in names(kube, "/api/v1/namespaces/default/pods"):
            kube.ask("DELETE", f"/api/v1/namespaces/default/pods/{pod}")
        here.until(lambda: not names(kube, "/api/v1/namespaces/default/pods"))
    finally:
        here.close()
        shutil.rmtree(folder)


def ask(kube: ApiServer, method: str, path: str, body: Tree | None = None) -> Tree:
    code, told = kube.ask(method, path, body)
    assert code < 300, told
    return told


def names(kube: ApiServer, path: str) -> list[str]:
    return [str(item["metadata"]["name"]) for item in ask(kube, "GET", path)["items"]]


def start_pod(kube: ApiServer, name: str) -> None:
    container = {"name": "main", "image": "rocm", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    pod = {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}
    ask(kube, "POST", "/api/v1/namespaces/default/pods", pod)


def specs(host: Host) -> list[Tree]:
    return [json.loads(path.read_text()) for path in sorted((host.folder / "cdi").glob("*.json"))]


def slices(kube: ApiServer) -> list[Tree]:
    return [one for one in ask(kube, "GET", f"{RESOURCES}/resourceslices")["items"] if one["spec"]["driver"] == DRIVER]


def test_the_kubelet_registers_the_driver_and_gives_its_devices_to_containers(host: Host) -> None:
    kube = host.kube
    start_pod(kube, "train")
    (device,) = host.prepared("train")
    (published,) = slices(kube)
    assert len(published["spec"]["devices"]) == 8
    assert published["metadata"]["ownerReferences"][0]["name"] == NODE
    (spec,) = specs(host)
    assert device in [f"{spec['kind']}={one['name']}" for one in spec["devices"]]
    (claim,) = ask(kube, "GET", f"{RESOURCES}/namespaces/default/resourceclaims")["items"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"]) == (DRIVER, NODE)
    ask(kube, "DELETE", "/api/v1/namespaces/default/pods/train")
    host.until(lambda: host.told("train")[-1].get("ended"))
    assert specs(host) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_a_driver_that_went_and_came_back_serves_again(host: Host, how: signal.Signals) -> None:
    start_pod(host.kube, "before")
    host.prepared("before")
    (published,) = slices(host.kube)
    assert host.stop("driver", how) == (0 if how == signal.SIGTERM else -signal.SIGKILL)
    host.start("driver")
    start_pod(host.kube, "after")
    host.prepared("after")
    assert len(specs(host)) == 2
    (now,) = slices(host.kube)
    assert now["metadata"]["resourceVersion"] == published["metadata"]["resourceVersion"]
    ask(host.kube, "DELETE", "/api/v1/namespaces/default/pods/before")
    host.until(lambda: host.told("before")[-1].get("ended"))
    assert len(specs(host)) == 1


def test_a_kubelet_that_was_killed_finds_what_is_prepared_in_its_checkpoint(host: Host) -> None:
    start_pod(host.kube, "train")
    device = host.prepared("train")
    told = len(host.told("train"))
    host.stop("kubelet")
    host.start("kubelet")
    host.until(lambda: len(host.told("train")) > told)
    assert host.prepared("train") == device
    ask(host.kube, "DELETE", "/api/v1/namespaces/default/pods/train")
    host.until(lambda: host.told("train")[-1].get("ended"))
    assert specs(host) == []


def test_what_ended_while_the_kubelet_was_away_is_given_back(host: Host) -> None:
    start_pod(host.kube, "train")
    host.prepared("train")
    host.stop("kubelet")
    ask(host.kube, "DELETE", "/api/v1/namespaces/default/pods/train")
    host.start("kubelet")
    host.until(lambda: host.told("train")[-1].get("ended"))
    assert specs(host) == []


def test_a_pod_whose_driver_is_away_waits_and_starts_when_it_is_back(host: Host) -> None:
    start_pod(host.kube, "first")
    host.prepared("first")
    host.stop("driver", signal.SIGTERM)
    start_pod(host.kube, "second")
    host.until(lambda: any(DRIVER in one.get("error", "") for one in host.told("second")))
    host.start("driver")
    assert host.prepared("second")
