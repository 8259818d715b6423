"""Every component as a process: promtool accepts its metrics, and it shuts down gracefully."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from allotment import Lab
from tests.components.manifests import TEMPLATE, pod
from tests.components.process import running, value
from tests.monitoring.conftest import Promtool
from tests.polling import wait_until

NODE = "t4-4x-pcie-1"
PLAIN = """
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {schedulerName: allotment-scheduler, containers: [{name: main, image: busybox}]}
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fleet="t4-4x-pcie", without=("scheduler", "resource-claims", "device-taints")) as lab:
        lab.apply(TEMPLATE)
        lab.apply(pod("waits"))
        lab.apply(PLAIN)
        yield lab


@pytest.mark.parametrize(
    ("words", "metric"),
    [
        (("scheduler",), 'allotment_work_duration_seconds_count{result="scheduled",work="schedule"}'),
        (("claims",), 'allotment_work_duration_seconds_count{result="done",work="sync_pod"}'),
        (("taints",), 'allotment_queue_depth{queue="device_taint_eviction"}'),
        (("annotator",), 'allotment_work_duration_seconds_count{result="done",work="explain"}'),
        (("exporter", "--catalog=aws"), 'allotment_work_duration_seconds_count{result="done",work="measure"}'),
        (("autoscaler", "--provider=simulated", "--catalog=aws", "--dry-run"),
         'allotment_client_requests_total{code="200",method="GET"}'),
    ],
)  # fmt: skip
def test_promtool_accepts_the_metrics_of_a_component(
    lab: Lab, promtool: Promtool, words: tuple[str, ...], metric: str
) -> None:
    with running(*words, f"--kubeconfig={lab.kubeconfig}", "--metrics-bind-address=127.0.0.1:0") as component:
        wait_until(lambda: metric in component.metrics(), state=component.metrics)
        wait_until(lambda: component.health("/readyz") == (200, "ok"))
        _promtool_output(promtool, component.metrics())
        assert component.stop() == 0, component.log
        assert "Traceback" not in component.log


@pytest.fixture
def folder() -> Iterator[str]:
    """A path short enough for Unix sockets."""
    with tempfile.TemporaryDirectory(prefix="k-") as folder:
        yield folder


def test_a_driver_is_ready_when_its_kubelet_has_registered_it(lab: Lab, promtool: Promtool, folder: str) -> None:
    arguments = ("driver", "amd", f"--node={NODE}", f"--driver-root={folder}", f"--kubelet-root={folder}/kubelet",
             f"--cdi-root={folder}/cdi")  # fmt: skip
    with running(*arguments, f"--kubeconfig={lab.kubeconfig}", "--metrics-bind-address=127.0.0.1:0") as driver:
        driver.wait_for_log("waiting for its kubelet")
        code, text = driver.health("/readyz")
        assert code == 500
        assert "[-]driver failed: the kubelet has not registered the driver yet\n" in text
        assert driver.health("/livez") == (200, "ok")
        metrics = driver.metrics()
        _promtool_output(promtool, metrics)
        assert value(metrics, 'allotment_queue_depth{queue="publishing"}') >= 0
        with running(*arguments, f"--kubeconfig={lab.kubeconfig}") as second:
            assert second.wait_exit() == 1
            assert "Traceback" not in second.log
        assert driver.stop() == 0, driver.log


def _promtool_output(promtool: Promtool, metrics: str) -> None:
    checked = promtool("check", "metrics", text=metrics)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
