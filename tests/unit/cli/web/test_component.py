"""The options of ``allot run web``."""

from __future__ import annotations

import re

import pytest

from allotment.cli.main import _parsed
from allotment.cli.web_component import options_of
from allotment.errors import InputError


def test_visitors_use_their_own_tokens_over_tls() -> None:
    found = options_of(
        _parsed([
            "run", "web", "--bind-address", "0.0.0.0:8444", "--tls-cert-file", "tls.crt", "--tls-private-key-file",
            "tls.key", "--allowed-host", "gpus.example",
        ])
    )  # fmt: skip
    assert (found.host, found.port, found.in_cluster) == ("0.0.0.0", 8444, True)
    assert (str(found.certificate), str(found.key), found.allowed_hosts) == ("tls.crt", "tls.key", ("gpus.example",))


def test_a_service_mesh_may_encrypt_instead() -> None:
    found = options_of(_parsed(["run", "web", "--bind-address", ":8444", "--http", "--tls-cert-file", "metrics.crt"]))
    assert (found.host, found.certificate, found.key) == ("0.0.0.0", None, None)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--bind-address", ":8444"],
            "--bind-address 0.0.0.0:8444: requires --tls-cert-file and --tls-private-key-file",
        ),
        (["--bind-address", "8444"], "--bind-address: expected HOST:PORT"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], text: str) -> None:
    with pytest.raises(InputError, match=re.escape(text)):
        options_of(_parsed(["run", "web", *words]))
