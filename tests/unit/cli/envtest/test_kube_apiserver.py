"""The command line of the API server that envtest starts."""

from __future__ import annotations

import re

import pytest

from allotment.cli.envtest import flags, run_program
from allotment.cli.envtest.flags import FlagError


def test_the_help_lists_flags_as_envtest_searches_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["kube-apiserver", "1.37", "--help"]) == 0
    printed = capsys.readouterr().out

    def has(flag: str) -> bool:
        return re.search(rf"(?m)^\s*--{flag}\b", printed) is not None

    assert has("secure-port")
    assert has("service-cluster-ip-range")
    assert not has("insecure-port")  # otherwise, envtest sets it


def test_the_version_is_that_of_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["kube-apiserver", "1.36", "--version"]) == 0
    assert capsys.readouterr().out.startswith("Kubernetes v1.36.")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--no-such-flag=1"], "Error: unknown flag: --no-such-flag\n"),
        (["start"], "Error: unknown command 'start'\n"),
        (["--authorization-mode=AlwaysAllow"], "Error: --authorization-mode: expected RBAC"),
        (["--secure-port=0"], 'Error: invalid argument "0" for "--secure-port" flag: expected 1 to 65535\n'),
        (["--feature-gates=NoSuchGate=true"], "Error: unrecognized feature gate: NoSuchGate"),
        (["--tls-cert-file=/no/such", "--tls-private-key-file=/no/such"], "Error: [Errno 2] No such file"),
    ],
)
def test_a_wrong_command_line_is_an_error(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert run_program(["kube-apiserver", "1.37", *arguments]) == 1
    assert capsys.readouterr().err.startswith(error)


def test_a_flag_that_the_lab_does_not_implement_is_reported() -> None:
    assert flags.check(["audit-log-path", "etcd-servers", "secure-port"]) == [
        "Flag --audit-log-path is not implemented by the lab, and is ignored"
    ]
    with pytest.raises(FlagError, match="unknown flag: --insecure-port"):
        flags.check(["insecure-port"])
