"""The chart renders valid objects, grants what the table of permissions lists, and rejects invalid values."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

import allotment
from allotment.cli import main as screens
from allotment.cli.main import main
from allotment.cli.metrics import alert_files, dashboard_files
from allotment.cli.run import settings_of
from allotment.permissions.components import COMPONENTS, lease_of
from allotment.permissions.roles import manifests
from tests.lab.harness import lab_harness
from tests.packaging import made_files, restricted, values_page
from tests.packaging.helm import CHART, PIECES, ROOT, HelmError, everything, named, only, run, settings, template

LEADING = ("annotator", "scheduler", "claims", "taints", "autoscaler")


def test_helm_lint_accepts_the_chart(helm: str) -> None:
    output = run(helm, "lint", "--strict", CHART, *everything())
    assert "[WARNING]" not in output
    assert "[ERROR]" not in output


def test_the_charts_version_is_that_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == allotment.__version__


def test_generated_files_are_up_to_date(helm: str) -> None:
    for path, text in (*made_files.chart_files(), *made_files.kustomize_files(helm)):
        assert path.read_text() == text, f"{path}: run `python -m tests.packaging.made_files`"


def test_components_that_run_by_default_are_read_only(helm: str) -> None:
    trees = template(helm)
    assert {tree["metadata"]["name"] for tree in trees if tree["kind"] == "Deployment"} == {
        "allotment-exporter", "allotment-annotator"
    }  # fmt: skip
    written = {
        (resource, verb)
        for tree in trees
        if tree["kind"] == "ClusterRole"
        for rule in tree["rules"]
        for resource in rule["resources"]
        for verb in set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert {resource for resource, _ in written} == {"events", "tokenreviews", "subjectaccessreviews"}


@pytest.mark.parametrize("piece", PIECES)
def test_each_component_alone_is_valid(helm: str, piece: str) -> None:
    trees = template(helm, *only(piece), "--skip-tests")

    async def accepted() -> None:
        async with lab_harness() as on:
            for tree in trees:
                created = await on.create(tree)
                assert created["metadata"]["uid"]

    asyncio.run(accepted())
    workloads = [tree for tree in trees if tree["kind"] in ("Deployment", "DaemonSet")]
    assert [tree["metadata"]["name"] for tree in workloads] == [f"allotment-{piece.replace('.', '-')}"]


@pytest.mark.parametrize("part", [name for name in COMPONENTS if name not in ("reader", *made_files.ELSEWHERE)])
def test_the_chart_grants_the_listed_permissions(helm: str, part: str) -> None:
    trees = template(helm, *only(part))
    for expected in manifests(COMPONENTS[part], namespace="allotment"):
        found = named(trees, expected["kind"], expected["metadata"]["name"])
        for field in ("rules", "subjects", "roleRef"):
            assert found.get(field) == expected.get(field)


def test_a_driver_may_write_the_status_of_its_own_devices_only(helm: str) -> None:
    role = named(template(helm, *only("driver.amd")), "ClusterRole", "allotment-driver-amd")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [["gpu.amd.com"]]


def test_read_only_users_get_a_role(helm: str) -> None:
    trees = template(helm, *only(), *settings(**{"reader.create": True}))
    expected = manifests(COMPONENTS["reader"])[1]
    assert named(trees, "ClusterRole", "allotment-reader")["rules"] == expected["rules"]


@pytest.mark.parametrize("part", LEADING)
def test_uninstalling_deletes_the_lease(helm: str, part: str) -> None:
    assert named(template(helm, *only(part)), "Lease", lease_of(part))["metadata"]["namespace"] == "allotment"


def test_all_but_drivers_run_restricted(helm: str) -> None:
    for tree in template(helm, *everything()):
        pod = restricted.pod_of(tree)
        if pod and not tree["metadata"]["name"].startswith("allotment-driver-"):
            assert not list(restricted.violations(pod)), tree["metadata"]["name"]


def test_releases_of_two_names_in_two_namespaces_share_nothing(helm: str) -> None:
    def made(release: str, namespace: str) -> set[tuple[str, str, str]]:
        trees = template(helm, *everything(), release=release, namespace=namespace)
        return {
            (tree["kind"], tree["metadata"].get("namespace", ""), tree["metadata"]["name"])
            for tree in trees
            if tree["kind"] != "DeviceClass"  # whose names are fixed by the vendors
        }

    first, second = made("allotment", "one"), made("other", "two")
    assert first & second == set()
    assert len(first) == len(second)


def test_the_user_id_is_set_by_the_image_or_the_cluster(helm: str) -> None:
    """A fixed user ID is rejected where namespaces have user ID ranges of their own (OpenShift)."""
    for tree in template(helm, *only(*PIECES)):
        if tree["kind"] in ("Deployment", "Pod"):
            pod = restricted.pod_of(tree)
            for context in (pod["securityContext"], *(container["securityContext"] for container in pod["containers"])):
                assert context.keys() & {"runAsUser", "runAsGroup", "fsGroup"} == set(), tree["metadata"]["name"]
    assert "USER 65532:65532" in (ROOT / "deploy" / "Containerfile").read_text(), "runAsNonRoot requires a number"


@pytest.mark.parametrize(
    ("mode", "privileged"), [("", False), ("@v0", False), ("auto", True), ("vfio", True), ("auto@v1", True)]
)
def test_amds_driver_is_privileged_where_it_changes_the_hardware(helm: str, mode: str, privileged: bool) -> None:
    trees = template(helm, *only("driver.amd"), *settings(**{"components.driver.amd.mode": mode}))
    pod = restricted.pod_of(named(trees, "DaemonSet", "allotment-driver-amd"))
    assert ("privileged" in restricted.violations(pod)) is privileged
    assert any(volume.get("hostPath", {}).get("path") == "/dev" for volume in pod["volumes"]) is privileged


@pytest.mark.parametrize("vendor", made_files.DRIVERS)
def test_drivers_run_as_root_for_the_kubelets_folders(helm: str, vendor: str) -> None:
    pod = restricted.pod_of(named(template(helm, *only(f"driver.{vendor}")), "DaemonSet", f"allotment-driver-{vendor}"))
    (container,) = pod["containers"]
    context = {**pod["securityContext"], **container["securityContext"]}
    assert context["runAsUser"] == 0
    assert not context.get("runAsNonRoot")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for volume in pod["volumes"]:
        if volume["name"] in ("plugins", "registry", "cdi"):  # other programs get the paths of sockets and specs
            assert volume["hostPath"]["path"] == mounts[volume["name"]]


def ready(script: list[str], code: int) -> subprocess.CompletedProcess[str]:
    """The result of `helm test` for a component that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *words: object) -> None:
            """Log no requests."""

    # The port is fixed by the chart, so the loopback address is one that no other program uses.
    with HTTPServer(("127.8.0.81", 8081), Handler) as server:
        Thread(target=server.handle_request).start()
        words = [sys.executable, *script[1:3], "127.8.0.81"]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)


def test_helm_test_queries_the_readiness_of_each_component(helm: str) -> None:
    trees = template(helm, *only("exporter", "scheduler"))
    (container,) = restricted.pod_of(named(trees, "Pod", "allotment-ready"))["containers"]
    assert container["command"][3:] == ["allotment-exporter", "allotment-scheduler"]
    well = ready(container["command"], 200)
    assert (well.returncode, well.stdout) == (0, "127.8.0.81 200 ok\n")
    assert ready(container["command"], 503).returncode != 0


@pytest.mark.parametrize("piece", PIECES)
def test_the_program_accepts_the_charts_command_lines(helm: str, piece: str) -> None:
    trees = template(helm, *only(piece), *settings(traces="http://collector:4318", **{"logs.verbose": True}))
    (workload,) = (tree for tree in trees if tree["kind"] in ("Deployment", "DaemonSet"))
    (container,) = restricted.pod_of(workload)["containers"]
    arguments = [word.replace("$(POD_NAMESPACE)", "allotment") for word in container["args"]]
    parsed = screens._parsed(arguments)
    settings_of(parsed)  # the error shows the mistake
    assert parsed.component == piece.partition(".")[0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"components.exporter.replica": 2}, "replica"),
        ({"components.exporter.replicas": "two"}, "components/exporter/replicas"),
        ({"components.driver.nvidia.mode": "turbo"}, "components/driver/nvidia/mode"),
        ({"components.driver.intel.enabled": True}, "intel"),
        ({"components.autoscaler.provider": "aws"}, "components/autoscaler/provider"),
        ({"image.digest": "sha256:12"}, "image/digest"),
        ({"logs.format": "xml"}, "logs/format"),
        ({"metrics.tls.from": "secret"}, "metrics/tls/secretName"),
        ({"metrics.tls.from": "cert-manager"}, "metrics/tls/issuer/name"),
        ({"networkPolicy.apiServer.cidrs[0]": "10.0.0.1"}, "networkPolicy/apiServer/cidrs/0"),
        ({"traces": "collector:4318"}, "traces"),
        ({"metrics.enabled": False, "monitoring.serviceMonitor.enabled": True}, "monitoring/serviceMonitor/enabled"),
        ({r"components.claims.podLabels.app\.kubernetes\.io/component": "mine"}, "components/claims/podLabels"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_invalid_values_are_rejected(helm: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(HelmError, match="values don't meet the specifications of the schema") as refused:
        template(helm, *settings(**values))
    assert message in str(refused.value)
    assert str(refused.value).count("false schema") <= 1, "other values are reported, too"


def test_values_of_a_wrong_type_are_rejected(helm: str, tmp_path: Path) -> None:
    paths: list[str] = []

    def wrong(value: Any, path: str) -> Any:
        if isinstance(value, dict) and not path.endswith("/affinity"):
            return {
                name: wrong(each, "/".join((path, name.replace("/", "~1"))))
                for name, each in (value or {"some": ""}).items()
            }
        if not isinstance(value, dict):  # helm itself replaces a null mapping by its default
            paths.append(path)
        return "text" if isinstance(value, bool | int | list) else ["text"]

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(wrong(values, "")))
    with pytest.raises(HelmError) as refused:
        template(helm, "--values", str(tmp_path / "values.yaml"))
    reported = set(re.findall(r"- at '(.*?)': (?:got|value must)", str(refused.value)))
    assert {path for path in paths if path not in reported} == set()


def test_each_value_is_in_the_schema_and_has_a_comment() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    assert yaml.safe_load((CHART / "values.yaml").read_text()).keys() == schema["properties"].keys() - {"global"}
    commented = {value.path.rpartition(".")[2] for value in values_page.values() if value.comment}
    for value in values_page.values():
        if not value.path.startswith("components."):
            assert value.comment, f"values.yaml: no comment for {value.path} for?"
        # Values that all components have are described once.
        assert value.path.rpartition(".")[2] in commented, f"values.yaml: no comment for {value.path} for?"


def test_the_page_lists_each_value() -> None:
    assert values_page.PAGE.read_text() == values_page.page(), "run `python -m tests.packaging.made_files`"


def test_alerts_and_dashboards_equal_the_generated_ones(helm: str) -> None:
    trees = template(helm, *everything())
    groups = yaml.safe_load(alert_files()["allotment.rules.yaml"])["groups"]
    assert named(trees, "PrometheusRule", "allotment")["spec"]["groups"] == groups
    boards = {
        key: text for tree in trees if "-dashboard-" in tree["metadata"]["name"] for key, text in tree["data"].items()
    }
    assert {name: json.loads(text) for name, text in boards.items()} == {
        name: json.loads(text) for name, text in dashboard_files().items()
    }


def test_replicas_are_spread_and_protected_by_a_budget(helm: str) -> None:
    trees = template(helm, *only("scheduler"))
    pod = restricted.pod_of(named(trees, "Deployment", "allotment-scheduler"))
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert named(trees, "PodDisruptionBudget", "allotment-scheduler")["spec"]["maxUnavailable"] == 1
    alone = template(helm, *only("scheduler"), *settings(**{"components.scheduler.replicas": 1}))
    assert not [tree for tree in alone if tree["kind"] == "PodDisruptionBudget"]


def test_an_image_is_named_by_digest_where_one_is_given(helm: str) -> None:
    digest = f"sha256:{'0' * 64}"
    trees = template(helm, *only("claims"), *settings(**{"image.digest": digest, "image.repository": "r.example/a"}))
    assert restricted.pod_of(named(trees, "Deployment", "allotment-claims"))["containers"][0]["image"] == (
        f"r.example/a@{digest}"
    )


def test_without_metrics_there_is_no_certificate(helm: str) -> None:
    trees = template(helm, *settings(**{"metrics.enabled": False}))
    assert not [tree for tree in trees if tree["kind"] == "Secret"]
    assert "tls" not in str([restricted.pod_of(tree) for tree in trees])


def test_older_clusters_get_device_classes_in_a_supported_version(helm: str) -> None:
    known = ["--kube-version", "1.32.0", "--api-versions", "resource.k8s.io/v1beta1"]
    trees = template(helm, *settings(**{"deviceClasses.nvidia": True}), *known)
    assert named(trees, "DeviceClass", "gpu.nvidia.com")["apiVersion"].startswith("resource.k8s.io/v1")


def test_an_unsupported_cluster_version_is_rejected(helm: str) -> None:
    with pytest.raises(HelmError, match=r"1\.32"):
        template(helm, "--kube-version", "1.31.0")


def test_the_program_prints_what_the_chart_grants(helm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac", "exporter"]) == 0
    printed = [tree for tree in yaml.safe_load_all(capsys.readouterr().out) if tree and tree["kind"] == "ClusterRole"]
    assert printed[0]["rules"] == named(template(helm), "ClusterRole", "allotment-exporter")["rules"]


@pytest.mark.parametrize(("vendor", "form"), [("nvidia", "8xa100-40gb/dynamic-mig"), ("amd", "mi300x-8x-oam/auto")])
def test_a_driver_with_simulated_hardware_needs_no_host_access(helm: str, vendor: str, form: str) -> None:
    words = settings(**{f"components.driver.{vendor}.simulate": form, f"components.driver.{vendor}.mode": ""})
    trees = template(helm, *only(f"driver.{vendor}"), *words)
    pod = named(trees, "DaemonSet", f"allotment-driver-{vendor}")["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"allotment.dev/simulate": vendor}
    assert "hostPID" not in pod
    assert {volume["name"] for volume in pod["volumes"]} == {"tmp", "plugins", "registry", "cdi", "tls"}
    (container,) = pod["containers"]
    assert f"--simulate={form}" in container["args"]
    assert not [word for word in container["args"] if word.startswith("--driver-root")]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "Bidirectional" not in str(container)
    # The program accepts them, whatever the cluster.
    arguments = screens._parsed([*container["args"], "--kubelet-root", "/nowhere"])
    assert (arguments.vendor, arguments.simulate, arguments.driver_root) == (vendor, form, "/")


def test_nodes_with_simulated_hardware_can_be_selected(helm: str) -> None:
    more = {r"components.driver.nvidia.nodeSelector.kubernetes\.io/arch": "amd64"}
    arguments = settings(**{"components.driver.nvidia.simulate": "8xa100-40gb"}, **more)
    pod = named(template(helm, *only("driver.nvidia"), *arguments), "DaemonSet", "allotment-driver-nvidia")
    selector = pod["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"allotment.dev/simulate": "nvidia", "kubernetes.io/arch": "amd64"}


def test_names_that_look_like_numbers_stay_strings(helm: str) -> None:
    """A preview is named by its commit: 12e5678 is a number in YAML."""
    values = {
        "fullnameOverride": "1e3", "metrics.tls.from": "secret", "metrics.tls.secretName": "456",
        "components.exporter.serviceAccount.name": "0x1", "components.exporter.priorityClassName": "789",
        "monitoring.prometheus.serviceAccount": "1.5", "monitoring.prometheus.namespace": "3",
        "monitoring.dashboards.namespace": "12",
    }  # fmt: skip
    arguments = [word if word != "--set" else "--set-string" for word in settings(**values)]
    wrong: list[str] = []

    def look(value: Any, path: str) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            named = key in ("name", "namespace", "secretName", "priorityClassName", "serviceAccountName", "serverName")
            if (named or "abels" in path.rpartition("/")[2]) and not isinstance(inner, str):
                wrong.append(f"{path}/{key}")
            if isinstance(inner, dict | list):
                look(inner, f"{path}/{key}")

    for tree in template(helm, *everything(), *arguments, release="123", namespace="12e5"):
        look(tree, f"{tree['kind']} {tree['metadata']['name']}")
    assert wrong == []
