"""The programs of ``allot envtest``, started and stopped as controller-runtime's envtest does it."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from allotment.cli.main import main
from allotment.lab import certificates
from allotment.model.trees import Tree
from tests.polling import wait_until


def free_port() -> int:
    """A port that is free now: envtest chooses ports in the same way."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def started(program: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own; SIGTERM to the group must end it with status 0."""
    process = subprocess.Popen([program, *arguments], process_group=0)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether a request is answered with 200."""
    try:
        with urllib.request.urlopen(url, context=context, timeout=60) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_envtest_starts_an_api_server_without_controllers(tmp_path: Path) -> None:
    assert main(["envtest", "--bin-dir", str(tmp_path)]) == 0
    [assets] = (tmp_path / "k8s").iterdir()
    now = datetime.now(UTC)
    authority, server = certificates.serving(tmp_path / "pki", now)
    admin = certificates.issue(tmp_path / "pki", "admin", ("system:masters",), now)
    (tmp_path / "apiserver.crt").write_bytes(server.certificate.read_bytes())
    (tmp_path / "apiserver.key").write_bytes(server.key.read_bytes())
    client = ssl.create_default_context(cafile=str(authority))
    store, port = free_port(), free_port()
    url = f"https://127.0.0.1:{port}"

    def send(path: str, body: Tree | None = None) -> Tree:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=client, timeout=60) as answer:
            found: Tree = json.loads(answer.read())
            return found

    etcd = ["--unsafe-no-fsync=true", f"--listen-client-urls=http://127.0.0.1:{store}", f"--data-dir={tmp_path}"]
    flags = [
        "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", f"--cert-dir={tmp_path}",
        f"--client-ca-file={authority}", "--disable-admission-plugins=ServiceAccount",
        f"--etcd-servers=http://127.0.0.1:{store}", f"--secure-port={port}", f"--service-account-issuer={url}/",
        f"--service-account-key-file={server.certificate}", f"--service-account-signing-key-file={server.key}",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]  # fmt: skip
    with started(assets / "etcd", *etcd):
        wait_until(lambda: answers(f"http://127.0.0.1:{store}/health"), "etcd is healthy")
        with started(assets / "kube-apiserver", *flags):
            wait_until(lambda: answers(f"{url}/healthz", client), "the API server is healthy, also for anonymous users")
            client.load_cert_chain(admin.certificate, admin.key)
            namespaces = [item["metadata"]["name"] for item in send("/api/v1/namespaces")["items"]]
            assert namespaces == ["default", "kube-node-lease", "kube-public", "kube-system"]
            # What controllers create in Kubernetes is missing, and the plugin that requires it does not run.
            assert not send("/api/v1/serviceaccounts")["items"]
            assert not send("/api/v1/namespaces/default/configmaps")["items"]
            assert not send("/api/v1/nodes")["items"]
            container = {"name": "main", "image": "registry.example/main"}
            pods = "/api/v1/namespaces/default/pods"
            pod = send(pods, {"metadata": {"name": "a"}, "spec": {"containers": [container]}})
            assert "serviceAccountName" not in pod["spec"]
            assert "volumes" not in pod["spec"]
