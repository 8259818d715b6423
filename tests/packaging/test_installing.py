"""Installing a release from its files, without network: pip, pipx, uvx, the zipapp and krew; and what then runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import allotment
from allotment.cli.demo.offline import FLEET
from allotment.reference.packaged_examples import packaged_examples
from tests.packaging import built_release, go_programs, in_container
from tests.packaging.built_release import PLATFORM, PYTHON
from tests.packaging.helm import ROOT, settings
from tests.polling import wait_until

EXAMPLE = ROOT / "src" / "allotment" / "examples" / "01-one-ampere-gpu.yaml"
EXPLAIN = ("explain", "-f", EXAMPLE, "--fleet", "8xa100-40gb")
VERSION = f"allot {allotment.__version__}\n"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_release.build(tmp_path_factory.mktemp("release") / "dist")


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def index() -> Path:
    """A folder with the dependencies, for installers without network."""
    return built_release.wheels()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    home = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(home, with_pip=False)
    return home / "bin" / "python"


def run(*command: str | Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a home folder of its own, without this project's environment."""
    return subprocess.run(
        command, env={"HOME": str(home), "PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True,
        check=False, timeout=240, cwd=home,
    )  # fmt: skip


def output(*command: str | Path, home: Path, **environment: str) -> str:
    done = run(*command, home=home, **environment)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


def unreachable_cluster(folder: Path) -> Path:
    """A kubeconfig with an address at which nothing listens."""
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n"
        "clusters: [{name: it, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: []\n"
        "contexts: [{name: it, context: {cluster: it}}]\n"
    )
    return path


def answers(home: Path, *allot: str | Path) -> None:
    """A plain installation reads files and connects to clusters."""
    assert output(*allot, "--version", home=home) == VERSION
    assert output(*allot, home=home).endswith("allot --help lists all commands.\n")
    assert "fits on node" in output(*allot, *EXPLAIN, home=home)
    config = unreachable_cluster(home)
    free = run(*allot, "free", "--kubeconfig", config, "--context", "it", home=home)
    assert free.returncode == 2
    assert "127.0.0.1:1" in free.stderr
    assert "pip install" not in free.stderr


def test_a_plain_installation_answers_questions_about_files_and_clusters(
    wheel: Path, index: Path, bare: Path, tmp_path: Path
) -> None:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--isolated")
    output(*pip, "--python", bare, "install", "--no-index", "--find-links", index, wheel, home=tmp_path)
    answers(tmp_path, bare.with_name("allotment"))
    assert "running a lab requires cryptography" in run(bare.with_name("allot"), "up", home=tmp_path).stderr


def test_uvx_runs_the_wheel(wheel: Path, index: Path, tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    offline = ("--offline", "--no-config", "--no-index", "--find-links", index, "--python", sys.executable)
    answers(tmp_path, uv, "tool", "run", *offline, "--from", wheel, "allotment")


def test_pipx_runs_the_wheel(wheel: Path, index: Path, tmp_path: Path) -> None:
    pipx = Path(sys.executable).with_name("pipx")
    environment = {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(index)}
    path = f"{pipx.parent}:/usr/bin:/bin"  # with uv, pipx does not install pip first, for which it needs the network
    words = ("run", "--backend", "uv", "--python", sys.executable, "--spec", wheel, "allotment")
    assert output(pipx, *words, "--version", home=tmp_path, **environment, PATH=path) == VERSION


def test_the_zipapp_runs_with_python_alone(
    dist: Path, bare: Path, tmp_path: Path, record_score: Callable[[str], None]
) -> None:
    zipapp = dist / f"allot-{PLATFORM}.pyz"
    answers(tmp_path, bare, zipapp)
    begin = time.perf_counter()
    output(bare, zipapp, *EXPLAIN, home=tmp_path)
    size = zipapp.stat().st_size / 1e6
    record_score(f"allot.pyz: {size:.1f} MB, explained in {(time.perf_counter() - begin) * 1000:.0f} ms")


def test_the_zipapp_runs_a_lab(dist: Path, bare: Path, tmp_path: Path) -> None:
    allot = (bare, dist / f"allot-{PLATFORM}.pyz")
    words = (
        "up",
        "--detach",
        "--ephemeral",
        "--port",
        "0",
        "--fleet",
        "t4-4x-pcie",
        "--kubeconfig",
        tmp_path / "config",
    )
    output(*allot, *words, home=tmp_path)
    try:
        assert "4 of 4 devices are free" in output(*allot, "free", "--kubeconfig", tmp_path / "config", home=tmp_path)
    finally:
        output(*allot, "down", home=tmp_path)


#: The components run from the single file of the release, as processes; the programs of the examples only wait.
IMAGES = """
[[image]]
pattern = "localhost/allotment"
command = ["{python}", "in_container.py"]
directory = "image"

[[image]]
pattern = "registry.example/*"
command = ["{python}", "-c", "import time; time.sleep(3600)"]
commands = "ignored"
"""
SCHEDULER = "allotment-scheduler"


def for_scheduler(text: str) -> tuple[str, int]:
    """Manifests with the chart's scheduler in all pods, and the number of pods."""
    trees, pods = [tree for tree in yaml.safe_load_all(text) if tree], 0
    for tree in trees:
        spec = tree["spec"]
        pod = spec if tree["kind"] == "Pod" else spec.get("template", {}).get("spec")
        if pod is not None and "containers" in pod:
            pod["schedulerName"] = SCHEDULER
            pods += spec.get("replicas", spec.get("parallelism", 1))
    return "\n---\n".join(map(json.dumps, trees)), pods


def test_the_chart_runs_the_demo_where_only_python_and_helm_are_installed(
    dist: Path, bare: Path, helm: str, tmp_path: Path
) -> None:
    image, config = tmp_path / "image", tmp_path / "config"
    image.mkdir()
    shutil.copy(in_container.__file__, image)
    (image / in_container.ZIPAPP).symlink_to(dist / f"allot-{PLATFORM}.pyz")
    (tmp_path / "images.toml").write_text(IMAGES)
    allot = (bare, dist / f"allot-{PLATFORM}.pyz")

    def pods_in(namespace: str) -> list[Any]:
        printed = output(*allot, "get", "pods", "-n", namespace, "-o", "json", "--kubeconfig", config, home=tmp_path)
        found: list[Any] = json.loads(printed)["items"]
        return found

    def are_on_nodes(namespace: str, number: int) -> bool:
        return [pod["spec"].get("nodeName") is not None for pod in pods_in(namespace)] == [True] * number

    def apply(text: str, *words: str) -> None:
        (tmp_path / "applied.json").write_text(text)
        output(*allot, "apply", "-f", "applied.json", "--kubeconfig", config, *words, home=tmp_path)

    lab = ("--detach", "--ephemeral", "--port", "0", "--fleet", ",".join(FLEET), "--kubeconfig", config)
    output(*allot, "up", *lab, "--runtime", "process", "--images", "images.toml", home=tmp_path)
    try:
        one = {f"components.{name}.replicas": 1 for name in ("annotator", "scheduler")}
        values = settings(**{"components.scheduler.enabled": True, **one})
        chart = (dist / f"allotment-{allotment.__version__}.tgz", "-n", "allotment", "--create-namespace")
        waiting = ("--wait", "--timeout", "200s")
        output(helm, "install", "allotment", *chart, *waiting, *values, home=tmp_path, KUBECONFIG=str(config))
        assert {pod["status"]["phase"] for pod in pods_in("allotment")} == {"Running"}
        for example in packaged_examples():
            if example.expect == "fits":
                text, number = for_scheduler(example.text)
                namespace = f"demo-{example.name[:2]}"
                apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                apply(text, "-n", namespace)
                wait_until(
                    partial(are_on_nodes, namespace, number),
                    f"{example.name}: the chart's scheduler has not assigned {number} pods to nodes",
                )
    finally:
        output(*allot, "down", home=tmp_path)


def test_the_zipapp_reports_another_python(dist: Path, bare: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / f"allot-{PLATFORM}.pyz") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/preamble.py"))
        preamble = archive.read(name).decode()
    other = run(bare, "-c", f"import sys; sys.version_info = (3, 10)\n{preamble}", home=tmp_path)
    assert other.returncode == 1
    assert other.stderr == f"allot: error: this file is for Python {PYTHON}; this is Python 3.10\n"
    assert run(bare, "-c", preamble, home=tmp_path).returncode == 0


def test_krew_installs_the_plugin(dist: Path, bare: Path, kubectl: str, tmp_path: Path) -> None:
    krew = go_programs.required_program("krew")
    root = tmp_path / "krew"
    archive = dist / f"kubectl-allot-{PLATFORM}.tar.gz"
    words = ("install", f"--manifest={dist / 'allot.yaml'}", f"--archive={archive}")
    output(krew, *words, home=tmp_path, KREW_ROOT=str(root))
    # The plugin runs with the first python3 on the PATH.
    path = os.pathsep.join(map(str, (root / "bin", bare.parent, "/usr/bin", "/bin")))
    printed = output(kubectl, "allot", home=tmp_path, PATH=path)
    assert "  kubectl allot explain POD  " in printed
    assert "fits on node" in output(kubectl, "allot", *EXPLAIN, home=tmp_path, PATH=path)
