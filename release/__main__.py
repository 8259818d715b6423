"""``python -m release``: writes the files of a release into an empty folder, with their SHA-256 sums."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from release.chart import chart_package
from release.containerfile import containerfile
from release.homebrew import FORMULA, formula
from release.krew import MANIFEST, plugin_archive, plugin_manifest
from release.platforms import PLATFORMS, PYTHONS
from release.sbom import bill_of_materials
from release.source_tree import ROOT, ReleaseError, check_tag, timestamp, version
from release.wheel import build_sdist, build_wheel
from release.zipapp import build_zipapp

SUMS: Final = "SHA256SUMS"
#: Where krew and Homebrew download the files if ``--url`` is not given: a name that is reserved for examples.
_URL: Final = "https://downloads.example/allotment/v{version}"
_SHELLS: Final = ("bash", "zsh", "fish")


def build(out: Path, url: str, platforms: Sequence[str], pythons: Sequence[str]) -> None:
    """Write all files. Raises ReleaseError if the tree cannot be released or dependencies cannot be downloaded."""
    number, moment = version(), timestamp()
    build_sdist(out)
    wheel = build_wheel(out)
    zipapps, archives = {}, {}
    for platform in map(PLATFORMS.__getitem__, platforms):
        zipapps[platform] = out / f"allot-{platform.name}.pyz"
        build_zipapp(zipapps[platform], wheel, platform, pythons)
        archives[platform] = plugin_archive(platform, zipapps[platform], moment)
    texts = {
        MANIFEST: plugin_manifest(number, url, archives),
        FORMULA: formula(number, url, zipapps),
        "Containerfile": containerfile(wheel.name),
        f"allotment-{number}.cdx.json": bill_of_materials(number, moment),
        **{f"allot.{shell}": _completion(shell) for shell in _SHELLS},
    }
    contents = {name: text.encode() for name, text in texts.items()}
    for name, content in (*contents.items(), *archives.values(), chart_package(number, moment)):
        (out / name).write_bytes(content)
    (out / SUMS).write_text(
        "".join(f"{_digest(file)}  {file.name}\n" for file in sorted(out.iterdir())), encoding="utf-8"
    )


def _completion(shell: str) -> str:
    """The completion script of a shell, printed by the program of this tree."""
    command = [sys.executable, "-m", "allotment.cli.main", "completion", shell]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m release", description="Build the files of a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty folder (default: dist)")
    parser.add_argument("--url", default="", help="folder from which krew and Homebrew download the files")
    parser.add_argument("--platform", choices=PLATFORMS, action="append", help="platforms of zipapps (default: all)")
    parser.add_argument("--python", choices=PYTHONS, action="append", help="releases of Python (default: all)")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if any(options.out.iterdir()):
        parser.error(f"--out: {options.out} is not empty")
    try:
        tag = check_tag()
        url = options.url.rstrip("/") or _URL.format(version=version())
        build(options.out, url, options.platform or tuple(PLATFORMS), options.python or PYTHONS)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for file in sorted(options.out.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file.name}")
    if not tag:
        print(f"The commit has no tag: to release it, tag it with v{version()}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
