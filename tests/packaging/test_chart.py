"""The chart: what it makes is valid, grants what the table of permissions says, and it refuses what means nothing."""

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
from allotment.tools.permissions.components import COMPONENTS, lease_of
from allotment.tools.permissions.roles import manifests
from tests.lab.stage import stage
from tests.packaging import made_files, restricted, values_page
from tests.packaging.helm import CHART, ROOT, Failed, everything, named, only, run, settings, template

LEADING = ("annotator", "scheduler", "claims", "taints", "autoscaler")


def test_helm_finds_nothing_to_say(helm: str) -> None:
    told = run(helm, "lint", "--strict", CHART, *everything())
    assert "[WARNING]" not in told
    assert "[ERROR]" not in told


def test_its_version_is_the_programs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == allotment.__version__


def test_what_is_made_from_the_program_is_up_to_date(helm: str) -> None:
    for path, text in (*made_files.chart_files(), *made_files.kustomize_files(helm)):
        assert path.read_text() == text, f"{path}: run `python -m tests.packaging.made_files`"


def test_what_runs_unless_asked_reads_only(helm: str) -> None:
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


@pytest.mark.parametrize("piece", made_files.PIECES)
def test_each_component_alone_is_valid(helm: str, piece: str) -> None:
    trees = template(helm, *only(piece), "--skip-tests")

    async def accepted() -> None:
        async with stage() as on:
            for tree in trees:
                made = await on.create(tree)
                assert made["metadata"]["uid"]

    asyncio.run(accepted())
    workloads = [tree for tree in trees if tree["kind"] in ("Deployment", "DaemonSet")]
    assert [tree["metadata"]["name"] for tree in workloads] == [f"allotment-{piece.replace('.', '-')}"]


@pytest.mark.parametrize("part", [name for name in COMPONENTS if name not in ("reader", *made_files.ELSEWHERE)])
def test_it_grants_what_the_table_says(helm: str, part: str) -> None:
    trees = template(helm, *only(part))
    for wanted in manifests(COMPONENTS[part], namespace="allotment"):
        found = named(trees, wanted["kind"], wanted["metadata"]["name"])
        for field in ("rules", "subjects", "roleRef"):
            assert found.get(field) == wanted.get(field)


def test_a_driver_may_speak_for_its_own_devices_only(helm: str) -> None:
    role = named(template(helm, *only("driver.amd")), "ClusterRole", "allotment-driver-amd")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [["gpu.amd.com"]]


def test_people_who_only_read_get_a_role(helm: str) -> None:
    trees = template(helm, *only(), *settings(**{"reader.create": True}))
    wanted = manifests(COMPONENTS["reader"])[1]
    assert named(trees, "ClusterRole", "allotment-reader")["rules"] == wanted["rules"]


@pytest.mark.parametrize("part", LEADING)
def test_uninstalling_takes_the_lease_along(helm: str, part: str) -> None:
    assert named(template(helm, *only(part)), "Lease", lease_of(part))["metadata"]["namespace"] == "allotment"


def test_all_but_drivers_run_restricted(helm: str) -> None:
    for tree in template(helm, *everything()):
        pod = restricted.pod_of(tree)
        if pod and not tree["metadata"]["name"].startswith("allotment-driver-"):
            assert not list(restricted.lacking(pod)), tree["metadata"]["name"]


def test_releases_of_two_names_in_two_namespaces_share_nothing(helm: str) -> None:
    def made(release: str, namespace: str) -> set[tuple[str, str, str]]:
        trees = template(helm, *everything(), release=release, namespace=namespace)
        return {
            (tree["kind"], tree["metadata"].get("namespace", ""), tree["metadata"]["name"])
            for tree in trees
            if tree["kind"] != "DeviceClass"  # whose names are the vendors'
        }

    first, second = made("allotment", "one"), made("other", "two")
    assert first & second == set()
    assert len(first) == len(second)


def test_who_runs_as_whom_is_the_images_word_or_the_clusters(helm: str) -> None:
    """A user that is named is refused where namespaces have users of their own (OpenShift)."""
    for tree in template(helm, *only(*made_files.PIECES)):
        if tree["kind"] in ("Deployment", "Pod"):
            pod = restricted.pod_of(tree)
            for context in (pod["securityContext"], *(one["securityContext"] for one in pod["containers"])):
                assert context.keys() & {"runAsUser", "runAsGroup", "fsGroup"} == set(), tree["metadata"]["name"]
    assert "USER 65532:65532" in (ROOT / "deploy" / "Containerfile").read_text(), "runAsNonRoot wants a number"


@pytest.mark.parametrize(
    ("mode", "privileged"), [("", False), ("@v0", False), ("auto", True), ("vfio", True), ("auto@v1", True)]
)
def test_amds_driver_is_privileged_where_it_changes_the_hardware(helm: str, mode: str, privileged: bool) -> None:
    trees = template(helm, *only("driver.amd"), *settings(**{"components.driver.amd.mode": mode}))
    pod = restricted.pod_of(named(trees, "DaemonSet", "allotment-driver-amd"))
    assert ("privileged" in restricted.lacking(pod)) is privileged
    assert any(volume.get("hostPath", {}).get("path") == "/dev" for volume in pod["volumes"]) is privileged


@pytest.mark.parametrize("vendor", made_files.DRIVERS)
def test_drivers_are_root_because_the_kubelets_folders_are(helm: str, vendor: str) -> None:
    pod = restricted.pod_of(named(template(helm, *only(f"driver.{vendor}")), "DaemonSet", f"allotment-driver-{vendor}"))
    (container,) = pod["containers"]
    told = {**pod["securityContext"], **container["securityContext"]}
    assert told["runAsUser"] == 0
    assert not told.get("runAsNonRoot")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for volume in pod["volumes"]:
        if volume["name"] in ("plugins", "registry", "cdi"):  # sockets and specs are told to others by their paths
            assert volume["hostPath"]["path"] == mounts[volume["name"]]


def ready(script: list[str], code: int) -> subprocess.CompletedProcess[str]:
    """What `helm test` says of a component that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *words: object) -> None:
            """Nothing."""

    # The port is the chart's, so the address is one that nobody else uses.
    with HTTPServer(("127.8.0.81", 8081), Handler) as server:
        Thread(target=server.handle_request).start()
        words = [sys.executable, *script[1:3], "127.8.0.81"]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)


def test_helm_test_asks_each_component_whether_it_is_ready(helm: str) -> None:
    trees = template(helm, *only("exporter", "scheduler"))
    (container,) = restricted.pod_of(named(trees, "Pod", "allotment-ready"))["containers"]
    assert container["command"][3:] == ["allotment-exporter", "allotment-scheduler"]
    well = ready(container["command"], 200)
    assert (well.returncode, well.stdout) == (0, "127.8.0.81 200 ok\n")
    assert ready(container["command"], 503).returncode != 0


@pytest.mark.parametrize("piece", made_files.PIECES)
def test_its_command_line_is_one_that_the_program_takes(helm: str, piece: str) -> None:
    trees = template(helm, *only(piece), *settings(traces="http://collector:4318", **{"logs.verbose": True}))
    (workload,) = (tree for tree in trees if tree["kind"] in ("Deployment", "DaemonSet"))
    (container,) = restricted.pod_of(workload)["containers"]
    words = [word.replace("$(POD_NAMESPACE)", "allotment") for word in container["args"]]
    parsed = screens._parsed(words)
    settings_of(parsed)  # a mistake is raised
    assert parsed.component == piece.partition(".")[0]


@pytest.mark.parametrize(
    ("values", "told"),
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
def test_values_that_mean_nothing_are_refused(helm: str, values: dict[str, Any], told: str) -> None:
    with pytest.raises(Failed, match="values don't meet the specifications of the schema") as refused:
        template(helm, *settings(**values))
    assert told in str(refused.value)
    assert str(refused.value).count("false schema") <= 1, "others are blamed, too"


def test_no_value_may_be_of_another_type(helm: str, tmp_path: Path) -> None:
    paths: list[str] = []

    def wrong(value: Any, path: str) -> Any:
        if isinstance(value, dict) and not path.endswith("/affinity"):
            return {
                name: wrong(each, "/".join((path, name.replace("/", "~1"))))
                for name, each in (value or {"some": ""}).items()
            }
        if not isinstance(value, dict):  # helm itself puts a mapping's usual value in place of what is none
            paths.append(path)
        return "text" if isinstance(value, bool | int | list) else ["text"]

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(wrong(values, "")))
    with pytest.raises(Failed) as refused:
        template(helm, "--values", str(tmp_path / "values.yaml"))
    told = set(re.findall(r"- at '(.*?)': (?:got|value must)", str(refused.value)))
    assert {path for path in paths if path not in told} == set()


def test_each_value_is_in_the_schema_and_has_a_word_of_its_own() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    assert yaml.safe_load((CHART / "values.yaml").read_text()).keys() == schema["properties"].keys() - {"global"}
    told = {value.path.rpartition(".")[2] for value in values_page.values() if value.says}
    for value in values_page.values():
        if not value.path.startswith("components."):
            assert value.says, f"values.yaml: what is {value.path} for?"
        # What components have alike is told once.
        assert value.path.rpartition(".")[2] in told, f"values.yaml: what is {value.path} for?"


def test_the_page_has_each_value() -> None:
    assert values_page.PAGE.read_text() == values_page.page(), "run `python -m tests.packaging.made_files`"


def test_alerts_and_dashboards_come_as_the_program_makes_them(helm: str) -> None:
    trees = template(helm, *everything())
    groups = yaml.safe_load(alert_files()["allotment.rules.yaml"])["groups"]
    assert named(trees, "PrometheusRule", "allotment")["spec"]["groups"] == groups
    boards = {
        key: text for tree in trees if "-dashboard-" in tree["metadata"]["name"] for key, text in tree["data"].items()
    }
    assert {name: json.loads(text) for name, text in boards.items()} == {
        name: json.loads(text) for name, text in dashboard_files().items()
    }


def test_copies_are_spread_and_kept(helm: str) -> None:
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


def test_older_clusters_get_device_classes_that_they_know(helm: str) -> None:
    known = ["--kube-version", "1.32.0", "--api-versions", "resource.k8s.io/v1beta1"]
    trees = template(helm, *settings(**{"deviceClasses.nvidia": True}), *known)
    assert named(trees, "DeviceClass", "gpu.nvidia.com")["apiVersion"].startswith("resource.k8s.io/v1")


def test_a_cluster_that_is_too_old_is_refused(helm: str) -> None:
    with pytest.raises(Failed, match=r"1\.32"):
        template(helm, "--kube-version", "1.31.0")


def test_the_program_prints_what_the_chart_grants(helm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rbac", "exporter"]) == 0
    printed = [tree for tree in yaml.safe_load_all(capsys.readouterr().out) if tree and tree["kind"] == "ClusterRole"]
    assert printed[0]["rules"] == named(template(helm), "ClusterRole", "allotment-exporter")["rules"]


@pytest.mark.parametrize(("vendor", "form"), [("nvidia", "8xa100-40gb/dynamic-mig"), ("amd", "mi300x-8x-oam/auto")])
def test_a_driver_of_simulated_hardware_needs_nothing_of_it(helm: str, vendor: str, form: str) -> None:
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
    # The program takes them, whatever the cluster.
    arguments = screens._parsed([*container["args"], "--kubelet-root", "/nowhere"])
    assert (arguments.vendor, arguments.simulate, arguments.driver_root) == (vendor, form, "/")


def test_nodes_that_simulate_can_be_narrowed_down(helm: str) -> None:
    more = {r"components.driver.nvidia.nodeSelector.kubernetes\.io/arch": "amd64"}
    words = settings(**{"components.driver.nvidia.simulate": "8xa100-40gb"}, **more)
    pod = named(template(helm, *only("driver.nvidia"), *words), "DaemonSet", "allotment-driver-nvidia")
    selector = pod["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"allotment.dev/simulate": "nvidia", "kubernetes.io/arch": "amd64"}


def test_names_that_read_as_numbers_are_names(helm: str) -> None:
    """A preview is called by the commit that it shows: 12e5678 is a number to YAML."""
    values = {
        "fullnameOverride": "1e3", "metrics.tls.from": "secret", "metrics.tls.secretName": "456",
        "components.exporter.serviceAccount.name": "0x1", "components.exporter.priorityClassName": "789",
        "monitoring.prometheus.serviceAccount": "1.5", "monitoring.prometheus.namespace": "3",
        "monitoring.dashboards.namespace": "12",
    }  # fmt: skip
    words = [word if word != "--set" else "--set-string" for word in settings(**values)]
    wrong: list[str] = []

    def look(value: Any, path: str) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            named = key in ("name", "namespace", "secretName", "priorityClassName", "serviceAccountName", "serverName")
            if (named or "abels" in path.rpartition("/")[2]) and not isinstance(inner, str):
                wrong.append(f"{path}/{key}")
            if isinstance(inner, dict | list):
                look(inner, f"{path}/{key}")

    for tree in template(helm, *everything(), *words, release="123", namespace="12e5"):
        look(tree, f"{tree['kind']} {tree['metadata']['name']}")
    assert wrong == []
