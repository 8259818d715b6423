"""Missing packages of an extra: every command reports all of them and the command that installs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from allotment import extras
from tests.unit.without_extras import CommandOutput, WithoutExtras, without_extras

ROOT = Path(__file__).parents[2]
Allot = Callable[[Sequence[str]], CommandOutput]
EVERY = tuple(dict.fromkeys(module for modules in extras.MODULES.values() for module in modules))
#: Packages of extras that are optional at run time.
OPTIONAL = {"uvloop"}

CONFIG = """
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: 'https://127.0.0.1:1'}}]
users: []
contexts: [{name: it, context: {cluster: it}}]
"""
POD = "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: x}]}}"

LAB = "running a lab requires cryptography, httptools"
SERVING = "prometheus-client"
TALKING = "grpcio, protobuf"
TRACES = "opentelemetry-sdk, opentelemetry-exporter-otlp-proto-http"
#: The command that serves cluster-autoscaler.
SERVERS = "cluster-autoscaler --nodes 0:1:aws/g5.*"


def python(
    script: str, folder: Path, hidden: Sequence[str] = EVERY, **variables: str
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a script in a process in which modules cannot be imported."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({tuple(hidden)!r}))"
    environment = {"HOME": str(folder), "KUBECONFIG": str(folder / "config"), **variables}
    return subprocess.run(
        [sys.executable, "-c", f"{hide}\n{script}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def process() -> Iterator[WithoutExtras]:
    with without_extras(EVERY) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a kubeconfig and a manifest."""
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "x.yaml").write_text(POD)
    return tmp_path


@pytest.fixture
def allot(process: WithoutExtras, folder: Path) -> Allot:
    """Run ``allot`` without the packages of all extras."""
    return lambda words: process.allot(words, folder)


@pytest.mark.parametrize(
    ("words", "requires", "extras"),
    [
        ("up", LAB, "lab"),
        ("up --detach", LAB, "lab"),
        ("demo sharing", LAB, "lab"),
        ("plan --picture p.svg", "allot plan requires matplotlib", "plan"),
        ("plan x.yaml --picture p.svg", "allot plan requires matplotlib", "plan"),
        ("replay sample", "allot replay requires numpy", "plan"),
        ("replay sample --picture c.svg", "allot replay requires numpy, matplotlib", "plan"),
        ("metrics", f"allot metrics requires {SERVING}", "run"),
        ("metrics --fleet t4", f"allot metrics requires {SERVING}", "run"),
        (SERVERS, f"allot cluster-autoscaler requires {TALKING}, cryptography, httptools", "drivers,lab"),
        (
            f"{SERVERS} --tls-cert-file c --tls-private-key-file k",
            f"allot cluster-autoscaler requires {TALKING}",
            "drivers",
        ),
        (f"{SERVERS} --plaintext --cloud-provider :1", f"allot cluster-autoscaler requires {TALKING}", "drivers"),
        ("run scheduler", f"allot run scheduler requires {SERVING}", "run"),
        (
            "run claims --metrics-bind-address 0 --otlp-endpoint http://x:1",
            f"allot run claims requires {TRACES}",
            "traces",
        ),
        ("run claims --otlp-endpoint http://x:1", f"allot run claims requires {SERVING}, {TRACES}", "run,traces"),
        ("run driver nvidia", f"allot run driver requires {SERVING}, grpcio, protobuf, nvidia-ml-py", "run,nvidia"),
        ("driver run nvidia", f"allot driver run requires {TALKING}, nvidia-ml-py", "nvidia"),
        ("driver run amd", f"allot driver run requires {TALKING}", "amd"),
        ("driver run nvidia --simulate t4", f"allot driver run requires {TALKING}", "drivers"),
        ("driver verify /run/x.sock", f"allot driver verify requires {TALKING}", "drivers"),
    ],
)
def test_command_reports_all_missing_packages(
    words: str, requires: str, extras: str, allot: Allot, folder: Path
) -> None:
    done = allot(words.split())
    error = f"allot: error: {requires}: pip install 'allotment[{extras}]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)
    assert {path.name for path in folder.iterdir()} == {"config", "x.yaml"}


def test_install_command_has_every_extra_if_one_package_is_missing(folder: Path) -> None:
    done = python("from allotment.cli.main import main; sys.exit(main(['run', 'driver', 'amd']))", folder, ["grpc"])
    assert done.returncode == 2
    assert done.stderr.endswith("requires grpcio: pip install 'allotment[run,amd]'\n")


def test_missing_package_is_a_problem_in_json_output(allot: Allot) -> None:
    done = allot(["plan", "x.yaml", "--picture", "p.svg", "-o", "json"])
    assert (done.returncode, done.stderr) == (2, "")
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["message"] == "allot plan requires matplotlib: pip install 'allotment[plan]'"


@pytest.mark.parametrize(
    "words",
    [
        "explain -f x.yaml --fleet t4",
        "free --fleet t4",
        "check x.yaml",
        "rbac reader",
        "fleet list",
        "catalog",
        "schema",
        "vocabulary",
        "completion bash",
        "metrics list",
        "version",
    ],
)
def test_commands_without_extras_run(words: str, allot: Allot) -> None:
    done = allot(words.split())
    assert done.returncode in (0, 1), done.stderr
    assert "pip install" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "get pods",
        "apply -f x.yaml",
        "snapshot -o y.yaml",
        "doctor",
        "free",
        "explain pod/x",
        "check x.yaml --context it",
        "rbac --check",
        "plan",
        "autoscale --provider karpenter --once",
    ],
)
def test_commands_for_clusters_require_no_extra(words: str, allot: Allot) -> None:
    """They report that nothing answers at the address in the kubeconfig."""
    done = allot(words.split())
    assert done.returncode in (1, 2)
    assert "127.0.0.1:1" in done.stdout + done.stderr
    assert "pip install" not in done.stderr


def test_plan_runs_without_the_solver(allot: Allot) -> None:
    examples = sorted(map(str, (ROOT / "src/allotment/examples").glob("0[1-4]*.yaml")))
    done = allot(["plan", *examples, "--catalog", "aws", "--time-limit", "0"])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("words", "code"), [(["down"], 0), (["status"], 1)])
def test_labs_can_be_listed_and_stopped(words: list[str], code: int, allot: Allot) -> None:
    done = allot(words)
    assert (done.returncode, done.stdout, done.stderr) == (code, "No lab is running.\n", "")


def test_library_raises_the_same_error(tmp_path: Path) -> None:
    done = python("import allotment; allotment.Lab()", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith(f"MissingExtraError: {LAB}: pip install 'allotment[lab]'\n")


def test_pytest_fixture_raises_the_same_error(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(allotment_lab): pass\n")
    words = ["-q", "-p", "no:cacheprovider", "--assert=plain", "test_it.py"]
    done = python(f"import pytest; sys.exit(pytest.main({words!r}))", tmp_path)
    assert done.returncode == 1
    assert f"MissingExtraError: {LAB}: pip install 'allotment[lab]'\n" in done.stdout


def test_extras_match_pyproject() -> None:
    """An extra of pyproject.toml has the packages that commands require, and otherwise only those of OPTIONAL."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def packages(extra: str) -> set[str]:
        found = set[str]()
        for requirement in map(Requirement, declared[extra]):
            if requirement.name == "allotment":
                found |= {name for other in requirement.extras for name in packages(other)}
            else:
                found.add(re.sub(r"[-_.]+", "-", requirement.name).lower())
        return found

    for extra, modules in extras.MODULES.items():
        assert {extras.PACKAGES.get(module, module) for module in modules} == packages(extra) - OPTIONAL, extra


def test_libraries_print_nothing_on_import(tmp_path: Path) -> None:
    # matplotlib searches the fonts of the machine once, and reports it if that takes more than five seconds.
    import matplotlib.font_manager

    done = python(
        f"import importlib\nfor name in {(*EVERY, 'matplotlib.figure')!r}: importlib.import_module(name)", tmp_path, (),
        MPLCONFIGDIR=matplotlib.get_cachedir(),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
