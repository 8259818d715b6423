"""``allot cluster-autoscaler``: the printed configuration, and errors before anything listens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from allotment.cli.cluster_autoscaler_config import ListenAddress, parse_listen_address
from allotment.errors import InputError
from tests.unit.cli.conftest import Ran

Allot = Callable[..., Ran]
NODES = ("--nodes", "0:3:aws/g5.xlarge")


@pytest.fixture
def run_command(allot: Allot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Allot:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return lambda *words: allot("cluster-autoscaler", *words)


def test_the_configuration_is_yaml_and_its_flags(run_command: Allot, tmp_path: Path) -> None:
    ran = run_command(*NODES, "--print-config")
    assert ran.code == 0
    config = yaml.safe_load(ran.out)
    folder = tmp_path / "data" / "allotment" / "cluster-autoscaler"
    assert config == {
        "address": "127.0.0.1:8086",
        "cert": f"{folder}/client-cluster-autoscaler.crt",
        "key": f"{folder}/client-cluster-autoscaler.key",
        "cacert": f"{folder}/ca.crt",
        "grpc_timeout": "30s",
    }
    for name in ("cert", "key", "cacert"):
        assert "-----BEGIN" in Path(config[name]).read_text()
    assert "--cloud-provider=externalgrpc --cloud-config=THIS-FILE" in ran.out
    assert f"--grpc-expander-url=127.0.0.1:8087 --grpc-expander-cert={folder}/ca.crt" in ran.out


def test_generated_certificates_are_kept(run_command: Allot) -> None:
    def keys() -> list[str]:
        config = yaml.safe_load(run_command(*NODES, "--print-config").out)
        return [Path(config[name]).read_text() for name in ("cert", "key", "cacert")]

    assert keys() == keys()


def test_expander_without_cloud_provider_needs_no_node_groups(run_command: Allot) -> None:
    ran = run_command("--expander", ":9000", "--tls-san", "expander.kube-system.svc", "--print-config")
    assert ran.code == 0
    assert "--grpc-expander-url=expander.kube-system.svc:9000" in ran.out
    assert "externalgrpc" not in ran.out
    assert yaml.safe_load(ran.out) is None


def test_cloud_provider_without_expander_and_tls(run_command: Allot) -> None:
    ran = run_command("--cloud-provider", "127.0.0.1:7000", "--plaintext", *NODES, "--print-config")
    assert yaml.safe_load(ran.out) == {"address": "127.0.0.1:7000", "grpc_timeout": "30s"}
    assert "expander" not in ran.out


def test_given_certificates_are_used(run_command: Allot) -> None:
    words = (
        "--tls-cert-file",
        "tls.crt",
        "--tls-private-key-file",
        "tls.key",
        "--client-ca-file",
        "ca.crt",
        "--print-config",
    )
    ran = run_command("--cloud-provider", "0.0.0.0:7000", "--tls-san", "cloud.svc", *NODES, *words)
    assert ran.code == 0
    config = yaml.safe_load(ran.out)
    assert config["address"] == "cloud.svc:7000"
    assert config["cacert"] == "tls.crt"
    assert config["cert"] == ""
    assert "signed by a CA in --client-ca-file" in ran.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "requires --nodes MIN:MAX:TYPE"),
        (("--nodes", "g5.xlarge"), "expected MIN:MAX:PROVIDER/TYPE"),
        (("--nodes", "0:3:aws/g5.xlrge"), "did you mean aws/g5.xlarge"),
        (("--nodes", "0:3:aws/g5.xlarge", "--zones", "mars-1a"), "cannot make a node group"),
        ((*NODES, "--catalog", "gcp"), "cannot make a node group"),
        (
            (*NODES, "--cloud-provider", "0.0.0.0:7000", "--plaintext"),
            "clients of the cloud provider can order machines",
        ),
        (
            (*NODES, "--cloud-provider", ":7000", "--tls-cert-file", "a", "--tls-private-key-file", "b"),
            "--client-ca-file is required",
        ),
        ((*NODES, "--tls-cert-file", "a"), "specify both or neither"),
        ((*NODES, "--expander", "here"), "--expander: expected HOST:PORT, found 'here'"),
        ((*NODES, "--slices-field", "2"), "2 is not available as a field number"),
        ((*NODES, "--max-node-provision-time", "soon"), "--max-node-provision-time: invalid duration"),
    ],
)
def test_mistakes(run_command: Allot, words: tuple[str, ...], expected: str) -> None:
    ran = run_command(*words)
    assert ran.code == 2
    assert expected in re.sub(r"\s+", " ", ran.err)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "place", "loopback"),
    [
        ("127.0.0.1:8086", ListenAddress("127.0.0.1", 8086), True),
        ("[::1]:8086", ListenAddress("::1", 8086), True),
        (":8086", ListenAddress("", 8086), False),
        ("10.0.0.7:0", ListenAddress("10.0.0.7", 0), False),
    ],
)
def test_addresses(text: str, place: ListenAddress, loopback: bool) -> None:
    found = parse_listen_address("--expander", text)
    assert found == place
    assert found.loopback is loopback
    assert str(found) == (f"0.0.0.0{text}" if text.startswith(":") else text)


@pytest.mark.parametrize("text", ["8086", "host", "host:port", "host:70000", "host:-1"])
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(InputError):
        parse_listen_address("--expander", text)
