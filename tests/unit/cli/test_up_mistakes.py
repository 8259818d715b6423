"""Errors at the start of a lab: user errors and others."""

from __future__ import annotations

import errno

import pytest

from allotment.cli.main import main
from allotment.cli.up import mistakes
from allotment.errors import InputError


def test_closed_output_is_not_a_mistake() -> None:
    with pytest.raises(BrokenPipeError), mistakes("default"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_port_in_use_has_hint() -> None:
    with pytest.raises(InputError, match="Address already in use") as caught, mistakes("default"):
        raise OSError(errno.EADDRINUSE, "Address already in use")
    assert "--port" in caught.value.hint


def test_invalid_api_versions_are_refused_as_by_kube_apiserver(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--ephemeral", "--runtime-config", "api/all=true,nope.example.com/v1=true"]) == 1
    assert capsys.readouterr().err == "error: unknown api groups nope.example.com/v1\n"


@pytest.mark.parametrize("value", ["/v1=false", "api/ga=false", "/v1/nodes=false"])
def test_a_lab_requires_nodes(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--ephemeral", "--runtime-config", value]) == 1
    assert capsys.readouterr().err in (
        "error: a lab requires namespaces of v1\n",
        "error: a lab requires nodes of v1\n",
    )
