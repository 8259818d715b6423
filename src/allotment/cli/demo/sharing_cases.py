"""The cases of ``allot demo sharing``: an application on an A100 alone, with time-slicing, MPS, and MIG devices.

The claims are those of the packaged examples 1 to 4. Their Deployments get the same container, the
application of the source tree, set to draw continuously; nothing else is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.cli.examples import find
from allotment.model.loading import load_text
from allotment.model.trees import Tree


class Case(NamedTuple):
    """A sharing mode. ``example``: the packaged example with its claim; ``namespace``: where it runs."""

    title: str
    short: str
    example: str
    namespace: str


CASES: Final = (
    Case("one alone, a whole GPU", "A whole GPU", "1", "whole-gpu"),
    Case("three in turns, time-slicing", "Time-slicing", "2", "time-slicing"),
    Case("three at once, MPS at 33 %", "MPS at 33 %", "3", "mps"),
    Case("seven on MIG devices 1g.5gb", "MIG devices 1g.5gb", "4", "mig"),
)

#: A GPU for each case: three whole ones, one that supports MIG.
FLEET: Final = ("a100=3xa100-40gb", "a100-mig=a100-40gb/dynamic-mig")

#: The image of the articles; the ``process`` runtime runs Allotment's application instead.
IMAGE: Final = "ghcr.io/castai/gpu-demo-app:latest"
PORT: Final = 5000

#: The work of a picture in multiprocessor seconds, and its maximum parallelism. Alone on a GPU it takes a second.
WORK: Final = 32
BREADTH: Final = 32
#: The CPU draws the picture; small pictures do not delay the simulated GPU.
_WIDTH, _HEIGHT = 240, 150


def objects(case: Case) -> Iterator[Tree]:
    """Return the objects of a case."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.namespace}}
    for document in load_text(find(case.example).text).documents:
        yield _with_application(document.tree) if document.tree["kind"] == "Deployment" else document.tree


def _with_application(deployment: Tree) -> Tree:
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    variables = {
        "INTERVAL": 0, "WIDTH": _WIDTH, "HEIGHT": _HEIGHT, "SAMPLES": 1, "GPU_WORK": WORK, "GPU_BREADTH": BREADTH,
    }  # fmt: skip
    application = {
        "name": container["name"],
        "image": IMAGE,
        "ports": [{"containerPort": PORT}],
        "env": [{"name": name, "value": str(value)} for name, value in variables.items()],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1},
        "resources": {"claims": container["resources"]["claims"]},
    }
    template = {**spec["template"], "spec": {**pod, "containers": [application]}}
    return {**deployment, "spec": {**spec, "template": template}}
