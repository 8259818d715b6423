"""The wheel holds everything and runs where nothing of the source tree is."""

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
#: A plan for which the solver is needed.
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
    wanted = {
        str(path.relative_to(source))
        for path in (source / "allotment").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert "allotment/py.typed" in wanted
    assert packed == wanted


@pytest.fixture(scope="module")
def allot(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, installed from the wheel into an environment of its own."""
    home = tmp_path_factory.mktemp("home") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=home)
    # The requirements come from the environment of the tests; a path in a .pth file does not bring that environment's
    # own .pth files with it, hence not its editable allotment either.
    (site,) = home.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import allotment; print(allotment.__file__)", cwd=home)
    assert where.startswith(str(home.resolve()))
    return home / "bin" / "allot"


def test_help_answers(allot: Path, tmp_path: Path, record_score: Callable[[str], None]) -> None:
    run(allot, "--help", cwd=tmp_path)
    begin = time.perf_counter()
    assert "explain" in run(allot, "--help", cwd=tmp_path)
    record_score(f"allot --help answered in {(time.perf_counter() - begin) * 1000:.0f} ms")


def test_every_extra_that_pages_name_is_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    extras = set(metadata.get_all("Provides-Extra", ()))
    assert {"cluster", "lab", "drivers", "nvidia", "amd", "plan", "run", "traces", "all"} <= extras
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    for page in pages:
        for listed in re.findall(r"allotment\[([a-z,]+)\]", page.read_text()):
            assert set(listed.split(",")) <= extras, f"{page}: allotment[{listed}]"


def test_all_is_what_users_need_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    of: dict[str, set[str]] = {}
    for requirement in metadata.get_all("Requires-Dist", ()):
        package, _, condition = requirement.partition(";")
        for extra in re.findall(r"extra == '(\w+)'", condition):
            of.setdefault(extra, set()).add(package.strip())
    for extra in ("cluster", "lab", "drivers", "nvidia", "amd", "plan", "run", "traces"):
        assert of[extra] <= of["all"], extra
    assert of["all"].isdisjoint(of["dev"] - of["lab"] - of["drivers"])


def test_the_command_is_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        told = archive.read(name).decode()
    assert "\nallot = allotment.cli.main:main\n" in told
    assert "\nkubectl-allot = allotment.cli.main:main\n" in told, "kubectl allot"
    assert "\nkubectl_complete-allot = allotment.cli.main:complete\n" in told, "its completion"


def test_packaged_data_is_found(allot: Path, tmp_path: Path) -> None:
    slices = run(
        allot, "fleet", "slices", "dgx-a100-40gb", "--mode", "dynamic-mig", "--node-name", "gpu-1", cwd=tmp_path
    )
    assert "kind: ResourceSlice" in slices
    assert "sharedCounters" in slices


def test_a_plan_as_json_is_json(allot: Path, tmp_path: Path) -> None:
    """Whatever the installed solver and charts library write: a release of HiGHS printed a banner."""
    plan = json.loads(run(allot, *PLAN, "-o", "json", cwd=tmp_path))
    assert plan["machines"]
    assert float(plan["bound"]) > 0


def test_a_picture_is_drawn_without_a_word_of_the_charts_library(allot: Path, tmp_path: Path) -> None:
    """matplotlib warns where its folder cannot be written to, as in a container."""
    (tmp_path / "file").touch()
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "file")}
    done = subprocess.run(
        [allot, *PLAN, "-o", "json", "--picture", "plan.svg"], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["machines"]
    assert done.stderr == "Drew plan.svg.\n"


def test_the_demonstration_that_is_not_installed_says_where_it_is(allot: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [allot, "demo", "sharing"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280
    )
    assert (done.returncode, done.stdout) == (2, "")
    said = " ".join(done.stderr.split())
    assert said.startswith("allot: error: allot demo sharing requires Allotment's source tree: ")
    assert said.endswith("in a checkout: make demo, then .venv/bin/allot demo sharing")
