"""The program ``kube-apiserver``: a lab in memory without programs, as the flags set it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from allotment.cli.envtest import flags
from allotment.cli.envtest.flags import FlagError
from allotment.errors import InputError

#: kube-apiserver's default.
_PORT: Final = 6443
#: The names of the server's certificate and key in ``--cert-dir``.
_CERTIFICATE, _KEY = "apiserver.crt", "apiserver.key"
_MODE: Final = "RBAC"


def main(release: str, arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT and return the exit status. ``release``: of Kubernetes, such as ``1.37``."""
    if {"--help", "-h"} & set(arguments):
        sys.stdout.write(flags.usage())
        return 0
    if "--version" in arguments:
        from allotment.model.releases import release_table

        sys.stdout.write(f"Kubernetes {release_table(release).version}\n")
        return 0
    try:
        given = flags.parse(arguments)
        for warning in flags.check(given):
            sys.stderr.write(f"{warning}\n")
        return _serve(release, given)
    except (FlagError, InputError, OSError) as error:
        problem = error.problem if isinstance(error, InputError) else error
        sys.stderr.write(f"Error: {problem}\n")
        return 1


def _serve(release: str, given: Mapping[str, str]) -> int:
    # Only now: for its help, the program must start quickly.
    from allotment.api.objects.releases import features
    from allotment.lab.foreground import run
    from allotment.lab.programs import NAMES
    from allotment.lab.settings import ApiServerOptions, Settings

    if _MODE not in _words(given.get("authorization-mode", _MODE)):
        raise FlagError(f"--authorization-mode: expected {_MODE}, which is the only mode that the lab implements")
    folder = Path(given.get("cert-dir", "/var/run/kubernetes"))
    authority = given.get("client-ca-file")
    options = ApiServerOptions(
        Path(given.get("tls-cert-file") or folder / _CERTIFICATE),
        Path(given.get("tls-private-key-file") or folder / _KEY),
        Path(authority) if authority else None,
        frozenset(_words(given.get("disable-admission-plugins", ""))),
    )
    run(
        Settings(
            host=given.get("bind-address", "127.0.0.1"), port=_port(given.get("secure-port", str(_PORT))), fleet=(),
            features=features(release, [given.get("feature-gates", "")]),
            runtime_config=tuple(_words(given.get("runtime-config", ""))), without=frozenset(NAMES), api_server=options,
        )
    )  # fmt: skip
    return 0


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise FlagError(f'invalid argument "{text}" for "--secure-port" flag: expected 1 to 65535')
    return int(text)
