"""Allotment and its dependencies as one file that a Python without packages runs: ``python -m release.zipapp``.

Some dependencies are compiled, for one release of Python and one platform. The file contains those of all supported
releases of Python, whose names differ, and of one platform. Python cannot import compiled modules from an archive:
shiv's bootstrap unpacks the file into ``~/.shiv`` when it first runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from release.lock_file import installed_with
from release.platforms import PLATFORMS, PYTHONS, Platform, this_platform
from release.source_tree import ROOT, ReleaseError, timestamp
from release.wheel import build_wheel

#: The released file can run a lab and components. uvloop is left out: it is optional, and larger than everything else
#: together.
EXTRAS: Final = ("lab", "run")
_LEFT_OUT: Final = ("uvloop",)
_SHEBANG: Final = "/usr/bin/env python3"
#: Runs before Allotment is imported: with another Python, the error would only be that a module is missing.
_PREAMBLE: Final = """\
import sys
found = "%d.%d" % sys.version_info[:2]
if found not in {pythons!r}:
    sys.exit("allot: error: this file is for Python {listed}; this is Python " + found)
"""


def build_zipapp(
    out: Path, wheel: Path, platform: Platform, pythons: Sequence[str] = PYTHONS, extras: Sequence[str] = EXTRAS
) -> None:
    """Write the file. Raises ReleaseError if dependencies cannot be downloaded."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        for python in pythons:
            for dependency in download(platform, python, extras, Path(folder, python)):
                _unpack(dependency, site)
        _unpack(wheel, site)
        preamble = Path(folder, "preamble.py")
        preamble.write_text(_PREAMBLE.format(pythons=tuple(pythons), listed=", ".join(pythons)), encoding="utf-8")
        packed = Path(folder, "packed")
        command: list[str | Path] = [
            sys.executable, "-m", "shiv", "--reproducible", "--uncompressed", "--site-packages", site, "--preamble",
            preamble, "--python", _SHEBANG, "--console-script", "allot", "--output-file", packed,
        ]  # fmt: skip
        subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(timestamp())})
        _sort(packed, out)


def download(platform: Platform, python: str, extras: Sequence[str], folder: Path) -> list[Path]:
    """Download the wheels of the locked dependencies into a new folder; pip verifies their hashes."""
    environment = platform.environment(python)
    releases = [each for each in installed_with(*extras) if each.is_for(environment) and each.name not in _LEFT_OUT]
    folder.mkdir()
    listed = folder / "requirements.txt"
    listed.write_text("".join(f"{each.line()}\n" for each in releases), encoding="utf-8")
    command: list[str | Path] = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
        "--only-binary", ":all:", "--require-hashes", "--python-version", python,
        *(word for tag in platform.tags for word in ("--platform", tag)), "--dest", folder, "--requirement", listed,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or "pip failed").splitlines()[-1]
        raise ReleaseError(f"the dependencies for {platform.name} and Python {python} cannot be downloaded: {reason}")
    return sorted(folder.glob("*.whl"))


def _unpack(wheel: Path, site: Path) -> None:
    """Unpack a wheel as pip installs it, without scripts and without records of the installation."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def _sort(packed: Path, out: Path) -> None:
    """Compress a zip archive, with its members in the order of their names.

    shiv adds the files of its bootstrap in the order in which the file system lists them.
    """
    moment = time.gmtime(timestamp())[:6]
    with zipfile.ZipFile(packed) as archive, out.open("wb") as file:
        file.write(f"#!{_SHEBANG}\n".encode())
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as result:
            for member in sorted(archive.infolist(), key=lambda member: member.filename):
                header = zipfile.ZipInfo(member.filename, moment)
                header.compress_type = zipfile.ZIP_DEFLATED
                header.external_attr = 0o100644 << 16  # the bootstrap restores these permissions
                result.writestr(header, archive.read(member))
    out.chmod(0o755)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit status."""
    here = this_platform()
    parser = argparse.ArgumentParser(prog="python -m release.zipapp", description="Build Allotment as a single file.")
    parser.add_argument(
        "out", nargs="?", type=Path, default=ROOT / "dist" / "allot.pyz", help="(default: dist/allot.pyz)"
    )
    parser.add_argument(
        "--platform", choices=PLATFORMS, default=here.name if here else None, help="(default: this one)"
    )
    parser.add_argument("--python", choices=PYTHONS, action="append", help="releases of Python (default: all)")
    parser.add_argument("--extras", default=",".join(EXTRAS), help=f"extras to include (default: {','.join(EXTRAS)})")
    options = parser.parse_args(arguments)
    if options.platform is None:
        parser.error(f"--platform: required on this machine: {', '.join(PLATFORMS)}")
    extras = [extra for extra in options.extras.split(",") if extra]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    try:
        wheel = build_wheel(folder)
        build_zipapp(options.out, wheel, PLATFORMS[options.platform], options.python or PYTHONS, extras)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
