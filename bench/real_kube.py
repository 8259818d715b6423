"""The real control plane for comparison: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback.

:mod:`bench.kube_programs` finds the programs; without them the lab's benchmark prints only Allotment's figures and no
ratio. No kubelets run, so pods are bound and never started; the node lifecycle controller is off unless it is named, or
it would taint the nodes as unreachable. Client limits are raised, as usual for throughput measurements. The server's
certificate is signed by an authority of its own, and all clients verify it.
"""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.lab import certificates
from allotment.model.trees import Tree
from bench.kube_programs import FOLDER as FOLDER
from bench.kube_programs import PROGRAMS as PROGRAMS
from bench.kube_programs import programs as programs
from bench.processes import Processes, processes
from bench.server import BenchServer

_TOKEN: Final = "benchmark"
_NODE_LIFECYCLE: Final = "node-lifecycle-controller"
_ACCOUNTS: Final = "serviceaccount-controller"
_DEFAULT_ACCOUNT: Final = "/api/v1/namespaces/default/serviceaccounts/default"


class ApiServer:
    """A running etcd and kube-apiserver, and the programs that were started with them. All are stopped at the end."""

    def __init__(
        self, running: Processes, paths: Mapping[str, str], server: BenchServer, authority: Path, etcd: str = ""
    ) -> None:
        self.server = server
        #: The address of etcd, without TLS.
        self.etcd = etcd
        self.folder = running.folder
        self.paths = dict(paths)
        #: The authority of the server's certificate (PEM).
        self.authority = authority
        self.kubeconfig = self.kubeconfig_of("admin", _TOKEN)
        self._running = running
        self._context = ssl.create_default_context(cafile=str(authority))

    def start(
        self, name: str, *flags: str, command: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start one of Kubernetes' programs, or ``command``; its log is ``folder/NAME.log``."""
        return self._running.start(name, [*(command or [self.paths[name]]), *flags], environment=environment)

    def port(self) -> int:
        """A port for one of Kubernetes' programs (with --permit-port-sharing), which stays reserved."""
        return self._running.port()

    def ready(self, name: str, port: int, path: str = "/readyz") -> None:
        """Wait until a started program reports on a loopback port, over HTTPS, that it is ready."""
        self._running.await_(name, lambda: _healthy(port, path))

    def await_(self, name: str, true: Callable[[], bool]) -> None:
        """Wait for a condition that a program brings about; raises Ended, with the end of its log, at the timeout."""
        self._running.await_(name, true)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop a program. Returns its exit status."""
        return self._running.stop(name, how)

    def cpu_seconds(self, name: str) -> float:
        """The processor time of a running program."""
        return self._running.cpu_seconds(name)

    def kill_server(self) -> Callable[[], None]:
        """Kill kube-apiserver (SIGKILL). Returns a function that restarts it on its etcd and waits until it is
        ready."""
        again = self._running.kill("kube-apiserver")

        def restart() -> None:
            again()
            self._running.await_("kube-apiserver", lambda: _healthy(self.server.port))

        return restart

    def paused(self, name: str) -> AbstractContextManager[None]:
        """Pause a program in this context: it does nothing, but connections to it are accepted."""
        return self._running.pause(name)

    def compact(self) -> None:
        """Compact etcd's history up to now, as an administrator may do by hand."""
        revision = self._etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def backup(self) -> Callable[[], None]:
        """Copy etcd's data. Returns a function that restores it, including its revisions. Both stop the server."""
        data, copy = self.folder / "etcd", self.folder / "backup"
        self._meanwhile(lambda: shutil.copytree(data, copy))

        def restore() -> None:
            shutil.rmtree(data)
            shutil.copytree(copy, data)

        return lambda: self._meanwhile(restore)

    def _meanwhile(self, act: Callable[[], object]) -> None:
        restart, again = self.kill_server(), self._running.kill("etcd")
        act()
        again()
        restart()

    def _etcd(self, path: str, body: Tree) -> Tree:
        with urllib.request.urlopen(f"{self.etcd}{path}", json.dumps(body).encode(), timeout=120) as answer:
            response: Tree = json.loads(answer.read())
            return response

    def tails(self) -> dict[str, str]:
        """The end of each program's log, for failure reports."""
        return self._running.tails()

    def target(self, token: str = _TOKEN) -> ClusterTarget:
        """The connection for the owner of a token, by default the administrator."""
        return ClusterTarget(self.server.url, authority=self.authority.read_bytes(), token=token)

    def verified(self) -> ssl.SSLContext:
        """The TLS context for other clients."""
        return self._context

    def client(self, manager: str = "admin", *, token: str = _TOKEN, **more: Any) -> HttpClient:
        """A client of the project. Use ``async with``."""
        return HttpClient(self.target(token), manager, **more)

    def kubeconfig_of(self, user: str, token: str) -> Path:
        """A kubeconfig for the owner of a token."""
        path = self.folder / f"kubeconfig-{user}"
        cluster = {"server": self.server.url, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "real",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    def send_request(
        self, method: str, path: str, body: Tree | None = None, *, token: str = _TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Tree]:  # fmt: skip
        """One request; returns the answer's code and object: for tests that are not about clients."""
        return self.send_request_for_warnings(method, path, body, token=token, headers=headers)[:2]

    def send_request_for_warnings(
        self, method: str, path: str, body: Tree | None = None, *, token: str = _TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Tree, list[str]]:  # fmt: skip
        """One request; returns the answer's code, object and Warning headers."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        sent = {
            "Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json", **(headers or {}),
        }  # fmt: skip
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server.url}{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=120) as answer:
                return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read()), error.headers.get_all("Warning") or []

    def token_of(self, account: str, namespace: str = "default", seconds: int = 3600) -> str:
        """A token of an existing service account, valid for this many seconds (600 at least)."""
        request = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds},
        }  # fmt: skip
        code, response = self.send_request(
            "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request
        )
        if code != 201:
            raise LookupError(f"no token for {namespace}/{account}: {response.get('message')}")
        return str(response["status"]["token"])


@contextmanager
def api_server(
    paths: dict[str, str], *flags: str, gates: Mapping[str, bool] | None = None, runtime_config: str = "",
    durable: bool = True, authorization: str = "Node,RBAC", names: Sequence[str] = (),
) -> Iterator[ApiServer]:  # fmt: skip
    """Start etcd and kube-apiserver; stop them at the end. Raises RuntimeError when they do not start.

    ``gates``: feature gates. ``runtime_config``: API versions to serve, as in the flag. If not ``durable``, etcd does
    not sync to disk, which must not be used for measurements. ``names``: further addresses for its certificate.
    """
    with processes("kube-") as running:
        folder = running.folder
        now = datetime.now(UTC)
        authority, client_keys = certificates.serving(folder / "pki", now, names)
        accounts = certificates.issue(folder / "pki", "service-accounts", (), now)
        etcd, peer, port = (running.port() for _ in range(3))
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
        client, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        running.start("etcd", [
            paths["etcd"], f"--data-dir={folder}/etcd", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}", "--socket-reuse-port",
            *([] if durable else ["--unsafe-no-fsync"]),
        ])  # fmt: skip
        running.start("kube-apiserver", [
            paths["kube-apiserver"], f"--etcd-servers={client}", *_listening(port),
            f"--tls-cert-file={client_keys.certificate}", f"--tls-private-key-file={client_keys.key}",
            f"--client-ca-file={authority}", f"--token-auth-file={tokens}", f"--authorization-mode={authorization}",
            "--allow-privileged=true", "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16", f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}", *_gates(gates),
            *([f"--runtime-config={runtime_config}"] if runtime_config else []), *flags,
        ])  # fmt: skip
        server = BenchServer("127.0.0.1", port, tls=True, token=_TOKEN)
        running.await_("kube-apiserver", lambda: _healthy(port))
        yield ApiServer(running, paths, server, authority, client)


@contextmanager
def plane(
    paths: dict[str, str], *flags: str, controllers: str = "*", scheduler: bool = True, runtime_config: str = "",
    gates: Mapping[str, bool] | None = None, durable: bool = False, names: Sequence[str] = (),
) -> Iterator[ApiServer]:  # fmt: skip
    """A control plane that is ready, with the named controllers (none if empty) and with or without kube-scheduler.

    ``controllers`` is as kube-controller-manager's flag. ``flags`` are kube-apiserver's.
    """
    with api_server(paths, *flags, gates=gates, runtime_config=runtime_config, durable=durable, names=names) as running:
        health_ports = {}
        if controllers:
            health_ports["kube-controller-manager"] = _manager(running, controllers, gates)
        if scheduler:
            health_ports["kube-scheduler"] = _scheduler(running, gates)
        for name, port in health_ports.items():
            running.ready(name, port, "/readyz" if name == "kube-scheduler" else "/healthz")
        if controllers and f"-{_ACCOUNTS}" not in controllers:  # without it, no pod is admitted
            running.await_("kube-controller-manager", lambda: running.send_request("GET", _DEFAULT_ACCOUNT)[0] == 200)
        yield running


@contextmanager
def control_plane(paths: dict[str, str]) -> Iterator[BenchServer]:
    """The four programs for the benchmark, with data on disk. Raises RuntimeError when they do not start."""
    with plane(paths, durable=True) as running:
        yield running.server


def _manager(running: ApiServer, controllers: str, gates: Mapping[str, bool] | None) -> int:
    """Start kube-controller-manager; return the port of its health checks."""
    port = running.port()
    if _NODE_LIFECYCLE not in controllers:
        controllers = f"{controllers},-{_NODE_LIFECYCLE}"
    pki = running.folder / "pki"
    running.start(
        "kube-controller-manager", f"--kubeconfig={running.kubeconfig}", *_listening(port),
        f"--controllers={controllers}", "--leader-elect=false", "--kube-api-qps=5000",
        "--kube-api-burst=10000", f"--root-ca-file={running.authority}",
        f"--service-account-private-key-file={pki}/client-service-accounts.key",
        f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key", *_gates(gates),
    )  # fmt: skip
    return port


def _scheduler(running: ApiServer, gates: Mapping[str, bool] | None) -> int:
    """Start kube-scheduler; return the port of its health checks."""
    port = running.port()
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(running.kubeconfig), "qps": 5000, "burst": 10000},
        "leaderElection": {"leaderElect": False},
    }  # fmt: skip
    path = running.folder / "scheduler.yaml"
    path.write_text(json.dumps(config))
    running.start("kube-scheduler", f"--config={path}", *_listening(port), "--authentication-skip-lookup=true",
                  *_gates(gates))  # fmt: skip
    return port


def _listening(port: int) -> tuple[str, ...]:
    """The options with which one of Kubernetes' programs listens on a port that is reserved for it."""
    return "--bind-address=127.0.0.1", f"--secure-port={port}", "--permit-port-sharing"


def _gates(gates: Mapping[str, bool] | None) -> list[str]:
    chosen = ",".join(f"{gate}={str(on).lower()}" for gate, on in (gates or {}).items())
    return [f"--feature-gates={chosen}"] if chosen else []


def _healthy(port: int, path: str = "/readyz") -> bool:
    """Whether one of Kubernetes' programs answers that it is ready; most have a self-signed certificate."""
    try:
        url = f"https://127.0.0.1:{port}{path}"
        with urllib.request.urlopen(url, context=_ANY, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


_ANY: Final = ssl._create_unverified_context()
