"""Applies the demo's manifests with kubectl if a recent one is installed, else with ``allot apply``."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from allotment.model.releases import RELEASES, release_key

#: The oldest kubectl that supports resource.k8s.io/v1 in all its commands: of the first release that has it.
_OLDEST: Final = release_key(RELEASES[0])
_TIMEOUT_SECONDS: Final = 30.0
_VERSION_SECONDS: Final = 5.0


class Applied(NamedTuple):
    """The result of applying a manifest. ``errors``: the tool's messages about rejected objects."""

    accepted: bool
    errors: str


class Tool(NamedTuple):
    """A tool to apply manifests. ``apply`` takes a file and a default namespace, if the objects set none."""

    name: str
    apply: Callable[[str, str], Applied]


def tool(kubeconfig: Path, home: Path) -> Tool:
    """Return the best available tool. ``home``: a directory for kubectl's caches."""
    for program in _kubectls():
        version = _version(program)
        numbers = re.match(r"v(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) >= _OLDEST:
            return Tool(f"kubectl {version}", _Kubectl(program, kubeconfig, home))
    return Tool("allot apply", _AllotApply(kubeconfig))


def _kubectls() -> Iterator[str]:
    """Yield every kubectl on the PATH; the first may be an old one of the operating system."""
    seen = set()
    for folder in os.get_exec_path():
        found = shutil.which("kubectl", path=folder)
        if found and os.path.realpath(found) not in seen:
            seen.add(os.path.realpath(found))
            yield found


def _version(program: str) -> str:
    """Return the version of a kubectl, or nothing if it does not print one."""
    command = [program, "version", "--client", "--output=json"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, timeout=_VERSION_SECONDS)
        return str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return ""


class _Kubectl:
    def __init__(self, program: str, kubeconfig: Path, home: Path) -> None:
        self._command = [program, "--kubeconfig", str(kubeconfig), "apply"]
        self._environment: Mapping[str, str] = {**os.environ, "KUBECACHEDIR": str(home), "KUBERC": "off"}

    def __call__(self, path: str, namespace: str) -> Applied:
        command = [*self._command, *_into(namespace), "--filename", path]
        done = subprocess.run(
            command, check=False, capture_output=True, timeout=_TIMEOUT_SECONDS, env=self._environment
        )
        return Applied(done.returncode == 0, done.stderr.decode(errors="replace"))


class _AllotApply:
    def __init__(self, kubeconfig: Path) -> None:
        self._words = ["apply", "--kubeconfig", str(kubeconfig)]

    def __call__(self, path: str, namespace: str) -> Applied:
        from allotment.cli.main import main

        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            code = main([*self._words, *_into(namespace), "--filename", path])
        return Applied(code == 0, errors.getvalue())


def _into(namespace: str) -> list[str]:
    return ["--namespace", namespace] if namespace else []


#: The prefix of error messages: object, type and path.
_IN_FRONT = re.compile(
    r".*(strict decoding error: |ERROR: <input>:\d+:\d+: |failed to create typed patch object .*?\): "
    r"|: Invalid value: |(?=no matches for kind ))"
)


def words_of(errors: str) -> str:
    """Return the errors in a tool's messages, without the prefix that names the object.

    >>> words_of('error when creating "a.yaml": strict decoding error: unknown field "spec.x", unknown field "spec.y"')
    'unknown field "spec.x", unknown field "spec.y"'
    """
    lines = [line for line in errors.splitlines() if line and not line.startswith("Warning: ")]
    message = next((line for line in lines if _IN_FRONT.match(line)), lines[0] if lines else "refused")
    return _IN_FRONT.sub("", message, count=1)
