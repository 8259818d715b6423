"""The options of ``allot run``, and errors for invalid values."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.cli.main import _parsed, main
from allotment.cli.run import _placed, settings_of
from allotment.cluster.leader_election import LeaseTimings
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.components.settings import Address, ComponentSettings, EndpointSettings
from allotment.errors import InputError

COMPONENTS = ("scheduler", "claims", "taints", "annotator", "autoscaler", "driver", "exporter", "web")


def settings(*words: str) -> ComponentSettings:
    return settings_of(_parsed(["run", "scheduler", *words]))


def test_servers_and_leader_election_are_off_by_default() -> None:
    assert settings() == ComponentSettings()


def test_all_options() -> None:
    found = settings(
        "--leader-elect", "--lease-namespace", "allotment", "--lease-name", "mine", "--lease-duration", "30s",
        "--renew-deadline", "20s", "--retry-period", "500ms", "--health-bind-address", ":8081",
        "--metrics-bind-address", "[::1]:8080", "--log-format", "json", "-v", "--otlp-endpoint", "http://jaeger:4318",
        "--kube-version", "1.35", "--feature-gates", "DRADeviceTaints=true", "--stop-timeout", "1m",
    )  # fmt: skip
    assert found.serving == EndpointSettings(Address("0.0.0.0", 8081), Address("::1", 8080))
    assert found.leading is not None
    assert found.leading[1:] == ("allotment", "mine", LeaseTimings(30, 20.0, 0.5))
    assert re.fullmatch(rf"{re.escape(socket.gethostname())}_[0-9a-f-]{{36}}", found.leading.identity)
    assert (found.logs, found.verbose, found.traces, found.shutdown_seconds) == ("json", True, "http://jaeger:4318", 60)
    assert found.feature_overrides == ("1.35", {"DRADeviceTaints": True})


def test_address_zero_disables_the_server() -> None:
    assert settings("--metrics-bind-address", "0", "--health-bind-address=").serving == EndpointSettings()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--health-bind-address", "8081"], "--health-bind-address: expected HOST:PORT"),
        (["--health-bind-address", "::1:8081"], "--health-bind-address: expected an IPv6 address in brackets"),
        (["--metrics-bind-address", "127.0.0.1:99999"], "--metrics-bind-address: expected HOST:PORT"),
        (["--metrics-bind-address", ":8443"], r"0\.0\.0\.0:8443: requires --tls-cert-file and --tls-private-key-file"),
        (["--tls-cert-file", "a.crt"], "specify both"),
        (["--otlp-endpoint", "jaeger:4318"], "--otlp-endpoint: expected a URL"),
        (["--leader-elect", "--lease-duration", "5s"], "each must be shorter than the one before"),
        (["--leader-elect", "--retry-period", "9s"], "each must be shorter than the one before"),
        (["--leader-elect", "--lease-duration", "15.5s"], "--lease-duration: expected whole seconds"),
        (["--stop-timeout", "soon"], "--stop-timeout: invalid duration"),
        (["--kube-version", "2.0"], "kube: expected one of"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        settings(*words)


def test_a_pods_lease_is_in_its_own_namespace() -> None:
    arguments = _parsed(["run", "claims", "--leader-elect"])
    found = settings_of(arguments)
    inside = ClusterTarget("https://10.0.0.1", namespace="allotment", token_file=Path("token"))
    outside = ClusterTarget("https://10.0.0.1", context="prod", namespace="shop")
    for target, namespace in ((inside, "allotment"), (outside, "kube-system")):
        placed = _placed(found, arguments, target).leading
        assert placed is not None
        assert placed.namespace == namespace


def test_drivers_and_exporters_have_no_leader_election() -> None:
    for words in (["driver", "nvidia"], ["exporter"]):
        with pytest.raises(SystemExit):
            _parsed(["run", *words, "--leader-elect"])


@pytest.mark.parametrize("component", COMPONENTS)
def test_help_of_each_component_fits_a_narrow_terminal(
    component: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["run", component, "--help"])
    output = capsys.readouterr().out
    assert "--health-bind-address" in output
    assert max(map(len, output.splitlines())) <= 80


def nowhere(folder: Path) -> str:
    """Arguments for an unreachable cluster."""
    kubeconfig = folder / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\nusers: []\ncontexts: [{name: it, context: {cluster: it}}]\n"
        "clusters: [{name: it, cluster: {server: 'http://127.0.0.1:9'}}]\n"
    )
    return f"--kubeconfig={kubeconfig}"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_port_in_use_is_a_user_error(tmp_path: Path, form: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        where = f"127.0.0.1:{other.getsockname()[1]}"
        words = ["run", "claims", nowhere(tmp_path), f"--health-bind-address={where}", f"--log-format={form}"]
        ended = subprocess.run(
            [sys.executable, "-m", "allotment.cli.main", *words], capture_output=True, text=True, check=False
        )
    assert ended.returncode == 2
    if form == "text":
        assert ended.stderr.endswith(f"allot: error: {where}: the address is already in use\n")
    else:
        lines = [json.loads(line) for line in ended.stderr.splitlines()]
        assert lines[-1]["message"] == f"claims: {where}: the address is already in use"
