"""The wheel contains every file and runs without the source tree."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: A plan that requires the solver.
PLAN = ("plan", Path(__file__).with_name("mixed-pods.yaml"), "--catalog", "aws", "--time-limit", "1")


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation, so that no network is needed: the build backend is among the development requirements.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("allotment-*.whl")
    return built


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in (source / "allotment").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert "allotment/py.typed" in expected
    assert packed == expected


@pytest.fixture(scope="module")
def allot(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, installed from the wheel into an environment of its own."""
    home = tmp_path_factory.mktemp("home") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run(*pip, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", wheel, cwd=home)
    # The requirements come from the environment of the tests; a path in a .pth file does not include that environment's
    # own .pth files, hence not its editable allotment either.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import allotment; print(allotment.__file__)", cwd=home)
    assert where.startswith(str(home.resolve()))
    return home / "bin" / "allot"


def test_help_runs(allot: Path, tmp_path: Path, record_score: Callable[[str], None]) -> None:
    run(allot, "--help", cwd=tmp_path)
    begin = time.perf_counter()
    assert "explain" in run(allot, "--help", cwd=tmp_path)
    record_score(f"allot --help answered in {(time.perf_counter() - begin) * 1000:.0f} ms")


def test_every_extra_named_in_pages_exists(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    extras = set(metadata.get_all("Provides-Extra", ()))
    assert {"cluster", "lab", "drivers", "nvidia", "amd", "plan", "run", "traces", "all"} <= extras
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    for page in pages:
        for listed in re.findall(r"allotment\[([a-z,]+)\]", page.read_text()):
            assert set(listed.split(",")) <= extras, f"{page}: allotment[{listed}]"


def test_the_extra_all_contains_the_extras_for_users(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    of: dict[str, set[str]] = {}
    for requirement in metadata.get_all("Requires-Dist", ()):
        package, _, condition = requirement.partition(";")
        for extra in re.findall(r"extra == '(\w+)'", condition):
            of.setdefault(extra, set()).add(package.strip())
    for extra in ("lab", "drivers", "nvidia", "amd", "plan", "run", "traces"):
        assert of[extra] <= of["all"], extra
    assert "cluster" not in of, "a plain installation connects to clusters; the extra is an empty alias"
    assert of["all"].isdisjoint(of["dev"] - of["lab"] - of["drivers"])


def test_the_commands_are_installed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        entry_points = archive.read(name).decode()
    assert "\nallot = allotment.cli.main:main\n" in entry_points
    assert "\nallotment = allotment.cli.main:main\n" in entry_points, "uvx allotment"
    assert "\nkubectl-allot = allotment.cli.main:main\n" in entry_points, "kubectl allot"
    assert "\nkubectl_complete-allot = allotment.cli.main:complete\n" in entry_points, "its completion"


def test_packaged_data_is_found(allot: Path, tmp_path: Path) -> None:
    slices = run(
        allot, "fleet", "slices", "dgx-a100-40gb", "--mode", "dynamic-mig", "--node-name", "gpu-1", cwd=tmp_path
    )
    assert "kind: ResourceSlice" in slices
    assert "sharedCounters" in slices


def test_a_plan_is_printed_without_output_of_the_solver_and_of_the_charts_library(allot: Path, tmp_path: Path) -> None:
    """A release of HiGHS printed a banner; matplotlib warns if its folder is not writable, as in a container."""
    (tmp_path / "file").touch()
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "file")}
    done = subprocess.run(
        [allot, *PLAN, "-o", "json", "--picture", "plan.svg"], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["machines"]
    assert float(plan["bound"]) > 0
    assert (tmp_path / "plan.svg").is_file()
    assert done.stderr == "Wrote plan.svg.\n"


def test_a_demonstration_that_is_not_installed_reports_where_it_is(allot: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [allot, "demo", "sharing"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280
    )
    assert (done.returncode, done.stdout) == (2, "")
    error = " ".join(done.stderr.split())
    assert error.startswith("allot: error: allot demo sharing requires Allotment's source tree: ")
    assert error.endswith("in a checkout, run make demo and then .venv/bin/allot demo sharing")
