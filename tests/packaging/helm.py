"""Runs helm on Allotment's chart."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from allotment.model.trees import Tree
from tests.clients.tools import FOLDER

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "allotment"

#: The components of the chart, as in its values.
PIECES: Final = (
    "exporter", "annotator", "scheduler", "claims", "taints", "autoscaler", "web", "driver.nvidia", "driver.amd",
)  # fmt: skip
_EVERYTHING: Final = {
    "components.web.ingress.enabled": True, "components.web.ingress.host": "gpus.example",
    "reader.create": True, "deviceClasses.nvidia": True, "deviceClasses.amd": True,
    "metrics.tls.from": "cert-manager", "metrics.tls.issuer.name": "own",
    "monitoring.serviceMonitor.enabled": True, "monitoring.rules.enabled": True, "monitoring.dashboards.enabled": True,
    "monitoring.prometheus.serviceAccount": "prometheus",
}  # fmt: skip


class HelmError(Exception):
    """Raised when helm fails; the text is its error output."""


def program(name: str) -> str | None:
    """The path of a client that ``make clients`` installs, else one on the PATH."""
    own = FOLDER / name
    return str(own) if own.is_file() else shutil.which(name)


def required_program(name: str) -> str:
    """The path of a client; the test is skipped if it is missing."""
    found = program(name)
    if found is None:
        pytest.skip(f"{name} not found: `make clients` installs it")
    return found


def run(helm: str, *arguments: str | Path, timeout: float = 240) -> str:
    """The output of helm. Raises HelmError."""
    with tempfile.TemporaryDirectory() as home:  # without the user's repositories, plugins and caches
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run(
            [helm, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )
    if done.returncode:
        raise HelmError(done.stderr or done.stdout)
    return done.stdout


def settings(**values: Any) -> list[str]:
    """Values as arguments: ``settings(**{"components.claims.enabled": True})``."""
    arguments = []
    for name, value in values.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        arguments += ["--set", f"{name}={text}"]
    return arguments


def only(*components: str) -> list[str]:
    """Values that enable only these components: ``only("scheduler", "driver.nvidia")``."""
    return settings(**{f"components.{name}.enabled": name in components for name in PIECES})


def everything() -> list[str]:
    """Values that enable everything in the chart, third-party kinds included."""
    return [*only(*PIECES), *settings(**_EVERYTHING)]


def template(helm: str, *arguments: str, release: str = "allotment", namespace: str = "allotment") -> list[Tree]:
    """The objects of the chart. Raises HelmError."""
    return objects(_rendered(helm, release, "--namespace", namespace, *arguments))


@cache
def _rendered(helm: str, release: str, *arguments: str) -> str:
    """The chart as text; many tests need it with the same values."""
    return run(helm, "template", release, CHART, *arguments)


def objects(text: str) -> list[Tree]:
    """The objects of a YAML stream."""
    return [tree for tree in yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if tree]


def named(trees: Sequence[Tree], kind: str, name: str) -> Tree:
    """The one object of a kind and name."""
    (found,) = (tree for tree in trees if tree["kind"] == kind and tree["metadata"]["name"] == name)
    return found
