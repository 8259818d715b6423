"""The real control plane beside ours: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback.

The four programs are looked for in ``$ALLOTMENT_KUBE_BIN``, then on the ``PATH``; without them the lab's benchmark
prints its own figures and no ratio. No kubelets run, so pods are bound and never started; the node lifecycle controller
is off, or it would call the nodes dead. Client limits are raised, as everybody does who measures throughput.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.server import Server

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
FOLDER: Final = "ALLOTMENT_KUBE_BIN"
_TOKEN: Final = "benchmark"
_PATIENCE_SECONDS: Final = 90


class ApiServer(NamedTuple):
    """etcd and a kube-apiserver that run, and nothing else. ``start`` adds a program, gone at the end with the rest."""

    server: Server
    folder: Path
    kubeconfig: Path
    start: Callable[..., None]


def programs(names: Sequence[str] = PROGRAMS) -> dict[str, str] | None:
    """The paths of the programs; None when one is missing."""
    found = {}
    for name in names:
        there = os.environ.get(FOLDER)
        path = shutil.which(name, path=there) if there else shutil.which(name)
        if path is None:
            return None
        found[name] = path
    return found


@contextmanager
def api_server(paths: dict[str, str]) -> Iterator[ApiServer]:
    """Start etcd and kube-apiserver; stop them at the end. Raises RuntimeError when they do not come up."""
    with tempfile.TemporaryDirectory(prefix="kube-") as text, ExitStack() as stack:
        folder = Path(text)
        etcd, peer, port = _free_ports(3)
        (folder / "tokens.csv").write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
        subprocess.run(
            ["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"], check=True, capture_output=True
        )
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(_kubeconfig(port))

        def start(name: str, *flags: str) -> None:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen([paths[name], *flags], stdout=log, stderr=log, cwd=folder)
            stack.callback(_stop, process)

        client = f"http://127.0.0.1:{etcd}"
        start("etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls={client}",
              f"--advertise-client-urls={client}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
              f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
              f"--initial-cluster=default=http://127.0.0.1:{peer}")  # fmt: skip
        start("kube-apiserver", f"--etcd-servers={client}", "--bind-address=127.0.0.1", f"--secure-port={port}",
              f"--cert-dir={folder}/certs", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC",
              "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
              f"--service-account-key-file={folder}/accounts.key",
              f"--service-account-signing-key-file={folder}/accounts.key")  # fmt: skip
        server = Server("127.0.0.1", port, tls=True, token=_TOKEN)
        _await(server, folder)
        yield ApiServer(server, folder, kubeconfig, start)


@contextmanager
def control_plane(paths: dict[str, str]) -> Iterator[Server]:
    """Start the four programs; stop them at the end. Raises RuntimeError when they do not come up."""
    with api_server(paths) as (server, folder, kubeconfig, start):
        manager, scheduler = _free_ports(2)
        (folder / "scheduler.yaml").write_text(_scheduler(kubeconfig))
        start("kube-controller-manager", f"--kubeconfig={kubeconfig}", f"--secure-port={manager}",
              "--bind-address=127.0.0.1", f"--service-account-private-key-file={folder}/accounts.key",
              "--controllers=*,-node-lifecycle-controller", "--leader-elect=false", "--kube-api-qps=5000",
              "--kube-api-burst=10000")  # fmt: skip
        start("kube-scheduler", f"--config={folder}/scheduler.yaml", f"--secure-port={scheduler}",
              "--bind-address=127.0.0.1", "--authentication-skip-lookup=true")  # fmt: skip
        yield server


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _await(server: Server, folder: Path) -> None:
    context = ssl._create_unverified_context()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            url = f"https://{server.host}:{server.port}/readyz"
            with urllib.request.urlopen(url, context=context, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    tail = (folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"kube-apiserver was not ready after {_PATIENCE_SECONDS} s; it said:\n{tail}")


def _kubeconfig(port: int) -> str:
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n"
        f'clusters: [{{name: it, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]\n'
        f"users: [{{name: it, user: {{token: {_TOKEN}}}}}]\n"
        "contexts: [{name: it, context: {cluster: it, user: it}}]\n"
    )


def _scheduler(kubeconfig: Path) -> str:
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 10000}}\n"
        "leaderElection: {leaderElect: false}\n"
    )
