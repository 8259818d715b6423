"""Selection of the cluster, and the errors when it cannot be reached."""

from __future__ import annotations

import json
import ssl
from argparse import Namespace
from pathlib import Path

import pytest

from allotment.cli.live import connection
from allotment.cli.live.connection import way_to
from allotment.cli.output.errors import Failure
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InputError
from allotment.lab.state import Register, Status
from tests.unit.cli.conftest import Allot


def configuration(path: Path, current: str, **servers: str) -> Path:
    """A file with a context for each server."""
    names = {name.replace("_", "-"): server for name, server in servers.items()}
    path.write_text(
        json.dumps(
            {
                "kind": "Config",
                "current-context": current,
                "clusters": [{"name": name, "cluster": {"server": server}} for name, server in names.items()],
                "contexts": [{"name": name, "context": {"cluster": name}} for name in names],
            }
        )
    )
    return path


def chosen(context: str | None = None, kubeconfig: Path | None = None) -> str:
    return way_to(Namespace(context=context, kubeconfig=str(kubeconfig) if kubeconfig else None)).server


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_the_lab_is_the_default_with_any_current_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = configuration(tmp_path / "config", "production", production="https://p:1", allotment="https://l:2")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert chosen() == "https://l:2"
    assert chosen("production") == "https://p:1"


def test_without_a_lab_the_current_context_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "config", "mine", mine="https://m:1")))
    assert chosen() == "https://m:1"


def test_lab_with_its_own_kubeconfig_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "config", "mine", mine="https://m:1")))
    own = configuration(tmp_path / "own", "allotment", allotment="https://l:2")
    register = Register()
    with register.hold("default"):
        register.write(Status("default", 1, "https://l:2", "allotment", str(own), "2026-01-01T00:00:00Z", "0"))
        assert chosen() == "https://l:2"
        assert chosen("mine") == "https://m:1"
    assert chosen() == "https://m:1"


def test_of_several_labs_the_current_one_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = configuration(tmp_path / "c", "allotment-two", allotment="https://l:1", allotment_two="https://l:2")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert chosen() == "https://l:1"  # the other does not run: it may be a cluster of consequence
    register = Register()
    with register.hold("two"):
        register.write(Status("two", 1, "https://l:2", "allotment-two", str(file), "2026-01-01T00:00:00Z", "0"))
        assert chosen() == "https://l:2"


def test_only_the_named_kubeconfig_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "config", "allotment", allotment="https://l:2")))
    assert chosen(kubeconfig=configuration(tmp_path / "other", "a", a="https://a:1")) == "https://a:1"
    with pytest.raises(InputError, match="context 'never' not found; available: a"):
        chosen("never", tmp_path / "other")


def test_no_cluster_is_one_error_with_hint(allot: Allot) -> None:
    ran = allot("get", "pods")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("allot: error: no kubeconfig found: looked for ")
    assert "allot up" in ran.err


@pytest.mark.parametrize("text", ["not: [a kubeconfig", "kind: Config", "kind: Pod"])
def test_existing_but_unusable_configuration_is_an_error(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "broken"
    file.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(file))
    for command in ("doctor", "free"):
        ran = allot(command)
        assert ran.code == 2
        assert ran.err.startswith(f"allot: error: {file}:")
        assert "no cluster specified" not in ran.err
        assert "allot up" not in ran.err


def test_an_unresponsive_cluster_is_one_error(allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "c", "allotment", allotment="http://127.0.0.1:9")))
    ran = allot("get", "pods", "-o", "json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "allot: error: no answer from http://127.0.0.1:9 (context allotment): nothing is listening on this address\n"
        "  start a lab with allot up, or select another cluster with --context\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "c", "allotment", allotment="http://never.invalid")))
    assert "no answer from http://never.invalid (context allotment): Name" in allot("get", "pods").err
    assert allot("explain").code == 2
    assert allot("free").code == 2


def test_labs_are_not_suggested_if_a_cluster_is_selected(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "c", "mine", mine="http://127.0.0.1:9")))
    err = allot("free").err
    assert "no answer from http://127.0.0.1:9 (context mine): nothing is listening on this address\n" in err
    assert "network, VPN, proxy" in err
    assert "allot up" not in err


def test_failing_plugin_is_not_a_server_timeout(allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
        "args": ["-c", "echo run cloud login >&2; exit 3"],
    }  # fmt: skip
    path = configuration(tmp_path / "c", "mine", mine="http://127.0.0.1:9")
    known = json.loads(path.read_text())
    known["users"] = [{"name": "me", "user": {"exec": plugin}}]
    known["contexts"][0]["context"]["user"] = "me"
    path.write_text(json.dumps(known))
    monkeypatch.setenv("KUBECONFIG", str(path))
    ran = allot("free")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ("allot: error: context mine: credential plugin 'sh' failed with exit code 3: run cloud login\n")


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (401, "Unauthorized", "error: You must be logged in to the server (Unauthorized)"),
        (
            403,
            'forbidden: User "system:anonymous" cannot get path "/api"',
            "context mine has no credentials for its user",
        ),
    ],
)
def test_unauthenticated_user_gets_hint(code: int, message: str, expected: str) -> None:
    way = ClusterTarget("https://example.invalid", context="mine")
    with pytest.raises(Failure) as failed, connection.cluster_errors(way):
        raise StatusError({"code": code, "message": message, "reason": "Forbidden"})
    assert expected in f"{failed.value} {failed.value.hint}"
    assert "context mine" in failed.value.hint


def test_certificate_of_another_host_is_reported() -> None:
    distrust = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] (_ssl.c:1006)")
    distrust.verify_message = "self-signed certificate"
    error = Unreachable("GET https://example.invalid/api: [SSL …] (_ssl.c:1006)")
    error.__cause__ = OSError("cannot connect")
    error.__cause__.__cause__ = distrust
    way = ClusterTarget("https://example.invalid", context="mine")
    with pytest.raises(InputError, match="trusted: self-signed certificate") as failed, connection.cluster_errors(way):
        raise error
    assert "certificate-authority-data" in failed.value.hint


def test_a_write_to_another_cluster_than_a_lab_is_announced(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "c", "mine", mine="http://127.0.0.1:9")))
    ran = allot("delete", "pod", "a")
    assert ran.err.startswith("no lab is running: using context 'mine', the current context\n")


def test_namespace_cannot_escape_the_path(allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(configuration(tmp_path / "c", "mine", mine="http://127.0.0.1:9")))
    assert "is not a valid namespace name" in allot("get", "pods", "-n", "../nodes").err
