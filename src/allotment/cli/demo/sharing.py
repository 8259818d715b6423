"""``allot demo sharing``: measures one application on four A100 GPUs that are shared in different ways.

The containers are local processes that draw pictures on simulated GPUs, which enforce their shares: a
picture is done when the hardware would be done. The printed numbers are measured by the applications. The claims are
those of the packaged examples 1 to 4.
"""

from __future__ import annotations

import contextlib
import json
import textwrap
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from allotment.checkout import application_module, examples_folder
from allotment.cli.demo.progress import Progress, quiet
from allotment.cli.output.console import Screen, from_home, open_screen
from allotment.errors import InputError
from allotment.lab.lab import Lab
from allotment.lab.pod_http import NoAnswer
from allotment.model.loading import load_text
from allotment.model.trees import Tree
from allotment.reference.packaged_examples import find_example


class Case(NamedTuple):
    """A sharing mode. ``example``: the packaged example with its claim; ``namespace``: where it runs."""

    title: str
    short: str
    example: str
    namespace: str


CASES: Final = (
    Case("one alone, a whole GPU", "A whole GPU", "1", "whole-gpu"),
    Case("three taking turns, time-slicing", "Time-slicing", "2", "time-slicing"),
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
_PICTURE_WIDTH, _PICTURE_HEIGHT = 240, 150


def objects(case: Case) -> Iterator[Tree]:
    """Return the objects of a case: those of its example, with the application in their Deployments."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.namespace}}
    for document in load_text(find_example(case.example).text).documents:
        yield _with_application(document.tree) if document.tree["kind"] == "Deployment" else document.tree


def _with_application(deployment: Tree) -> Tree:
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    variables = {
        "INTERVAL": 0, "WIDTH": _PICTURE_WIDTH, "HEIGHT": _PICTURE_HEIGHT, "SAMPLES": 1, "GPU_WORK": WORK,
        "GPU_BREADTH": BREADTH,
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


_MEASURE_SECONDS: Final = 12.0
_START_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2
_WIDTH: Final = 80
_BAR: Final = 24
_COLUMNS: Final = 7


class Replica(NamedTuple):
    """The report of a replica."""

    pod: str
    node: str
    stats: Mapping[str, Any]
    picture: bytes

    @property
    def per_minute(self) -> float:
        """Pictures per minute, as it measured them."""
        return float(self.stats["per_minute"])


class Measurement(NamedTuple):
    """A case and its replicas, the fastest first."""

    case: Case
    replicas: Sequence[Replica]

    @property
    def per_minute(self) -> float:
        """Pictures per minute of all replicas."""
        return sum(replica.per_minute for replica in self.replicas)


def run(arguments: Namespace) -> int:
    """Measure and show the cases; return 0 if every replica drew pictures."""
    folder = examples_folder()
    if folder is None:
        raise InputError(
            "allot demo sharing requires Allotment's source tree: the package does not contain its application",
            "in a checkout, run make demo and then .venv/bin/allot demo sharing",
        )
    screen = open_screen()
    progress = Progress(screen)
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        stack.callback(progress.clear)
        progress("starting a lab")
        lab = stack.enter_context(Lab(FLEET, name="demo-sharing", runtime="process"))
        for case in CASES:
            lab.apply(list(objects(case)), namespace=case.namespace)
        progress("starting 14 containers")
        pods = _ready(lab)
        until = time.monotonic() + _MEASURE_SECONDS
        while (left := until - time.monotonic()) > 0:
            progress(f"{sum(map(len, pods.values()))} replicas are drawing; {left:.0f} s left")
            time.sleep(min(_LOOK_SECONDS, left))
        progress("counting pictures")
        measured = [Measurement(case, _replicas(lab, pods[case])) for case in CASES]
        progress("stopping the lab")
    for line in shown(screen, measured, time.perf_counter() - start):
        screen.line(line)
    if arguments.pictures:
        path = _write(Path(arguments.pictures), measured, application_module(folder, "sheet"))
        screen.line(f"The latest picture of each container: {from_home(path)}")
    return 0 if all(replica.per_minute for measurement in measured for replica in measurement.replicas) else 1


def _ready(lab: Lab) -> dict[Case, list[Tree]]:
    """Return the pods of each case when all are ready."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        pods = {case: list(lab.list("pods", namespace=case.namespace)) for case in CASES}
        wanted = sum(int(tree["spec"].get("replicas", 0)) for tree in lab.list("deployments"))
        waiting = [pod for of_case in pods.values() for pod in of_case if not _is_ready(pod)]
        if not waiting and sum(map(len, pods.values())) == wanted:
            return pods
        if time.monotonic() > deadline:
            not_running = ", ".join(f"{pod['metadata']['name']} ({pod['status'].get('phase')})" for pod in waiting)
            raise InputError(
                f"not ready after {_START_SECONDS:.0f} s: {not_running}",
                "to investigate, start a lab with `allot up`, apply the examples and use kubectl describe",
            )
        time.sleep(_LOOK_SECONDS)


def _is_ready(pod: Tree) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _replicas(lab: Lab, pods: Sequence[Tree]) -> list[Replica]:
    found = []
    for pod in pods:
        try:
            stats, picture = json.loads(lab.http_get(pod, PORT, "/stats")), lab.http_get(pod, PORT, "/image.png")
        except NoAnswer as error:
            raise InputError(f"a replica failed: {error}", "see its log") from None
        found.append(Replica(pod["metadata"]["name"], pod["spec"]["nodeName"], stats, picture))
    return sorted(found, key=lambda replica: -replica.per_minute)


def shown(screen: Screen, measured: Sequence[Measurement], seconds: float) -> Iterator[str]:
    """Return the table: the sum of each case as a bar, and the share of each replica."""
    product = measured[0].replicas[0].stats["device"]
    yield f"Four simulated {product}, one application, four claims."
    yield "Pictures per minute:"
    yield ""
    most = max(measurement.per_minute for measurement in measured) or 1.0
    width = max(len(measurement.case.title) for measurement in measured)
    for measurement in measured:
        bar = screen.paint(_bar(measurement.per_minute / most), "green")
        yield f"  {measurement.case.title:<{width}}  {measurement.per_minute:6.1f}  {bar}"
        if len(measurement.replicas) > 1:
            each = " + ".join(f"{replica.per_minute:.0f}" for replica in measurement.replicas)
            yield screen.paint(f"  {'':<{width}}  {'':6}  {each}", "dim")
    yield ""
    yield from textwrap.wrap(_lesson(measured), screen.width or _WIDTH)
    yield ""
    pictures = sum(int(replica.stats["images"]) for measurement in measured for replica in measurement.replicas)
    containers = sum(len(measurement.replicas) for measurement in measured)
    yield f"{pictures} pictures, drawn by {containers} containers; {seconds:.1f} s in total. The lab was deleted."


def _lesson(measured: Sequence[Measurement]) -> str:
    alone, *others = measured
    turns, mps, mig = (other.per_minute / alone.per_minute if alone.per_minute else 0.0 for other in others)
    return (
        f"A picture uses {BREADTH} of 108 multiprocessors for {WORK / BREADTH:.0f} s, so one replica alone leaves most "
        f"of the GPU idle. Three replicas that take turns draw {turns:.1f} times as many pictures as one alone, "
        f"because only one runs at a time. Three that run at once draw {mps:.1f} times as many. A MIG device has 14 "
        "multiprocessors: each of the seven replicas is slower than one alone, but they cannot disturb each other, and "
        f"together they draw {mig:.1f} times as many."
    )


def _bar(part: float) -> str:
    """Return a bar with a resolution of an eighth of a character."""
    eighths = round(part * _BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _write(folder: Path, measured: Sequence[Measurement], sheets: ModuleType) -> Path:
    """Write the last picture of every replica, and a sheet of all. ``sheets``: the application's module for it."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = []
    for measurement in measured:
        words = f"{measurement.per_minute:.1f} pictures per minute"
        groups.append(
            sheets.Group(measurement.case.short, words, [replica.picture for replica in measurement.replicas])
        )
        for replica in measurement.replicas:
            (folder / f"{replica.pod}.png").write_bytes(replica.picture)
    path = folder / "sharing.png"
    path.write_bytes(sheets.contact_sheet(groups, _COLUMNS))
    return path
