"""Charts of public projects are installed with ``helm install --wait``, and uninstalled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest

import allotment
from tests.operators.local_operator import run_client
from tests.operators.programs import source_folder


class ModuleChart(NamedTuple):
    """The folder of a chart in a module, and values that it requires."""

    module: str
    folder: str
    values: tuple[str, ...] = ()


CHARTS: Final[Mapping[str, ModuleChart]] = {
    "cert-manager": ModuleChart("cert-manager", "deploy/charts/cert-manager", ("crds.enabled=true",)),
    "pebble": ModuleChart("cert-manager", "make/config/pebble/chart"),
    "scheduler": ModuleChart("scheduler-plugins", "manifests/install/charts/as-a-second-scheduler"),
    "spark": ModuleChart("spark-operator", "charts/spark-operator-chart"),
}


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    """A lab with three nodes."""
    with allotment.Lab(fleet="t4-4x-pcie:3", tls=True) as lab:
        yield lab


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_installed_until_its_pods_are_ready(name: str, lab: allotment.Lab) -> None:
    chart = CHARTS[name]
    place = source_folder(chart.module) / chart.folder
    values = [word for value in chart.values for word in ("--set", value)]
    where = ("--namespace", name)
    run_client(lab, "helm", "install", name, str(place), *where, "--create-namespace", "--wait", *values)
    deployments = json.loads(run_client(lab, "kubectl", "get", "deployments", *where, "-o", "json"))["items"]
    assert deployments
    assert all(tree["status"]["readyReplicas"] == tree["spec"]["replicas"] for tree in deployments)
    run_client(lab, "helm", "uninstall", name, *where, "--wait")
    assert not lab.list("pods", namespace=name)
