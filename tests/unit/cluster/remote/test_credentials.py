"""Credentials that change while a client runs: tokens, certificates, output of plugins."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote import credential_plugins, credentials
from allotment.cluster.remote.credentials import Credentials
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget, CredentialPlugin
from allotment.cluster.resources import NODES
from allotment.lab import certificates
from allotment.lab.http_server import Server, server_context
from tests.unit.cluster.remote.test_http_client import Scripted, answer, refusal, run_with_client

V1 = "client.authentication.k8s.io/v1"


def script(folder: Path, text: str, **more: Any) -> CredentialPlugin:
    """A plugin that appends a line to ``runs`` and then runs the script text."""
    path = folder / "login"
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{text}\n")
    path.chmod(0o755)
    return CredentialPlugin(str(path), (), (), more.pop("api_version", V1), **more)


def credential(ends: datetime | None = None, api_version: str = V1, **status: str) -> str:
    if ends is not None:
        status["expirationTimestamp"] = ends.isoformat()
    tree = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(tree)}\nEND"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


async def thrice(client: HttpClient) -> None:
    for _ in range(3):
        await client.get(NODES, "n1")


@pytest.mark.parametrize(("minutes", "expected"), [(None, 1), (10, 1), (-1, 3)])
def test_a_plugin_runs_again_when_its_token_expires(tmp_path: Path, minutes: float | None, expected: int) -> None:
    ends = None if minutes is None else datetime.now(UTC) + timedelta(minutes=minutes)
    run_with_client(Scripted(*[answer({})] * 3), thrice, plugin=script(tmp_path, credential(ends, token="t")))
    assert runs(tmp_path) == expected


def test_concurrent_requests_run_a_plugin_once(tmp_path: Path) -> None:
    async def scenario(client: HttpClient) -> None:
        await asyncio.gather(*(client.get(NODES, "n1") for _ in range(5)))

    run_with_client(Scripted(*[answer({})] * 5), scenario, plugin=script(tmp_path, credential(token="t")))
    assert runs(tmp_path) == 1


def test_concurrent_requests_share_the_failure_of_a_plugin(tmp_path: Path) -> None:
    async def scenario(client: HttpClient) -> None:
        answers = await asyncio.gather(*(client.get(NODES, "n1") for _ in range(5)), return_exceptions=True)
        assert all("run cloud login" in str(answer) for answer in answers)

    run_with_client(Scripted(), scenario, plugin=script(tmp_path, "echo run cloud login >&2; exit 3"))
    assert runs(tmp_path) == 1


def test_a_request_with_a_failed_plugin_can_cancel_the_others(tmp_path: Path) -> None:
    async def scenario(client: HttpClient) -> None:
        with pytest.raises(Unreachable, match="did not print an ExecCredential"):
            await asyncio.gather(*(client.get(NODES, "n1") for _ in range(5)))

    run_with_client(Scripted(), scenario, plugin=script(tmp_path, "echo hello"))
    assert runs(tmp_path) == 1


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_a_plugin_gets_the_cluster_in_its_environment(tmp_path: Path, version: str) -> None:
    text = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n{credential(api_version=version, token="t")}'
    plugin = script(tmp_path, text, api_version=version, with_cluster=True, cluster_config='{"audience": "x"}')
    server = Scripted(answer({}))
    run_with_client(server, lambda client: client.get(NODES, "n1"), plugin=plugin, server_name="kubernetes")
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"], info["spec"]["interactive"]) == (version, "ExecCredential", False)
    cluster = info["spec"]["cluster"]
    assert cluster["server"].startswith("http://127.0.0.1:")
    assert (cluster["tls-server-name"], cluster["config"]) == ("kubernetes", {"audience": "x"})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (credential(api_version="client.authentication.k8s.io/v1beta1", token="t"), f"expected apiVersion {V1}"),
        (credential(clientCertificateData="x"), "clientCertificateData and clientKeyData are required together"),
        (credential(token="t", expirationTimestamp="soon"), "did not print an ExecCredential"),
    ],
)
def test_invalid_plugin_output_is_an_error(tmp_path: Path, made: str, message: str) -> None:
    async def scenario(client: HttpClient) -> None:
        with pytest.raises(Unreachable, match=message):
            await client.get(NODES, "n1")

    run_with_client(Scripted(), scenario, plugin=script(tmp_path, made))


@pytest.mark.parametrize("hangs", ["sleep 1000\necho", "(while :; do echo y; done)\necho"])
def test_a_hanging_plugin_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    monkeypatch.setattr(credential_plugins, "_SECONDS", 0.5)
    monkeypatch.setattr(
        credential_plugins, "_KILL_SECONDS", 1000.0
    )  # the output is closed when its last holder has ended

    async def scenario() -> None:
        async with asyncio.timeout(200):
            with pytest.raises(Unreachable, match="did not exit within"):
                await credential_plugins.credential(script(tmp_path, hangs), ClusterTarget("https://c"))

    asyncio.run(scenario())


def test_an_interactive_plugin_without_a_terminal_is_an_error(tmp_path: Path) -> None:
    async def scenario(client: HttpClient) -> None:
        with pytest.raises(Unreachable, match=r"requires a terminal .*, but there is none"):
            await client.get(NODES, "n1")

    run_with_client(Scripted(), scenario, plugin=script(tmp_path, credential(token="t"), mode="Always"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("mode", "interactive"), [("Never", False), ("IfAvailable", True), ("Always", True)])
def test_a_plugin_gets_the_terminal_if_its_mode_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, interactive: bool
) -> None:
    controller, terminal_fd = pty.openpty()
    text = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n{credential(token="t")}'
    try:
        with os.fdopen(terminal_fd, "r") as terminal:
            monkeypatch.setattr("sys.stdin", terminal)
            run_with_client(
                Scripted(answer({})), lambda client: client.get(NODES, "n1"), plugin=script(tmp_path, text, mode=mode)
            )
    finally:
        os.close(controller)
    assert json.loads((tmp_path / "info").read_text())["spec"]["interactive"] is interactive


def test_a_token_in_a_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    server = Scripted(
        answer({}), refusal(401, "Unauthorized"), answer({}), answer({}), refusal(401, "U"), refusal(401, "U")
    )

    async def scenario(client: HttpClient) -> None:
        await client.get(NODES, "n1")
        path.write_text("two\n")
        await client.get(NODES, "n1")  # rejected: retried immediately with the new token
        monkeypatch.setattr(credentials, "_REREAD_SECONDS", 0.0)
        path.write_text("three\n")
        await client.get(NODES, "n1")  # read again after a minute, before it is rejected
        with pytest.raises(StatusError) as raised:
            await client.get(NODES, "n1")
        assert raised.value.code == 401

    run_with_client(server, scenario, token_file=path)
    tokens = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert tokens == ["one", "one", "two", "three", "three", "three"]


def test_a_certificate_in_files_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_REREAD_SECONDS", 0.0)
    now = datetime.now(UTC)
    made = certificates.ensure(tmp_path, now, ["kubernetes"])
    certificate, key = tmp_path / "mine.crt", tmp_path / "mine.key"

    def write_identity(identity: certificates.Identity) -> None:
        certificate.write_bytes(identity.certificate.read_bytes())
        key.write_bytes(identity.key.read_bytes())

    async def identify(request: Request) -> AnyResponse:
        return answer({"name": request.peer.name if request.peer else ""})

    async def scenario() -> None:
        write_identity(made.admin)
        serving = Server(identify)
        port = await serving.listen("127.0.0.1", 0, server_context(*made.server, made.authority))
        target = ClusterTarget(
            f"https://127.0.0.1:{port}", authority=made.authority.read_bytes(), certificate_file=certificate,
            key_file=key,
        )  # fmt: skip
        async with HttpClient(target) as client:
            assert await client.read("/") == {"name": "allotment-admin"}
            # Only the first of the two files is replaced yet: the previous certificate stays in use.
            other = certificates.issue(tmp_path, "other", (), now)
            certificate.write_bytes(other.certificate.read_bytes())
            assert await client.read("/") == {"name": "allotment-admin"}
            write_identity(other)
            assert await client.read("/") == {"name": "other"}
        await serving.stop(1)

    asyncio.run(scenario())


def test_an_authority_in_a_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_REREAD_SECONDS", 0.0)
    before, after = (
        certificates.ensure(tmp_path / name, datetime.now(UTC), ["kubernetes"]) for name in ("before", "after")
    )
    authority = tmp_path / "ca.crt"

    async def scenario() -> None:
        authority.write_bytes(before.authority.read_bytes())
        shown = server_context(*before.server, before.authority)
        serving = Server(Scripted(*[answer({}, 200, ("Connection", "close"))] * 3))
        port = await serving.listen("127.0.0.1", 0, shown)
        target = ClusterTarget(
            f"https://127.0.0.1:{port}", authority=authority.read_bytes(), authority_file=authority, token="t"
        )
        async with HttpClient(target) as client:
            await client.read("/")
            authority.write_bytes(b"-----BEGIN CERTIFICATE-----")  # it is being written
            await client.read("/")
            shown.load_cert_chain(*after.server)
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await client.read("/")
            authority.write_bytes(before.authority.read_bytes() + after.authority.read_bytes())
            await client.read("/")
        await serving.stop(1)

    asyncio.run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a certificate comes over the disk")
def test_keys_are_not_written_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = certificates.ensure(tmp_path, datetime.now(UTC), ["kubernetes"])
    target = ClusterTarget(
        "https://c", certificate=made.admin.certificate.read_bytes(), key=made.admin.key.read_bytes()
    )

    def read_only(*_: object, **__: object) -> tuple[int, str]:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.mkstemp", read_only)
    assert asyncio.run(Credentials(target).context()).check_hostname


def test_a_plugin_can_return_a_certificate(tmp_path: Path) -> None:
    made = certificates.ensure(tmp_path, datetime.now(UTC), ["kubernetes"])
    output = credential(
        clientCertificateData=made.admin.certificate.read_text(), clientKeyData=made.admin.key.read_text()
    )

    async def identify(request: Request) -> AnyResponse:
        return answer({"name": request.peer.name if request.peer else ""})

    async def scenario() -> None:
        serving = Server(identify)
        port = await serving.listen("127.0.0.1", 0, server_context(*made.server, made.authority))
        target = ClusterTarget(
            f"https://127.0.0.1:{port}", authority=made.authority.read_bytes(), plugin=script(tmp_path, output)
        )
        async with HttpClient(target) as client:
            assert await client.read("/") == {"name": "allotment-admin"}
        await serving.stop(1)

    asyncio.run(scenario())
