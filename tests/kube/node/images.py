"""The container images of the node, which are built locally and cached, because no registry is used.

``localhost/python`` is Debian with its Python, sleeping: the base of Allotment's image, the pause image, and the image
of the scenarios' pods. ``localhost/allotment`` is built from it with ``deploy/Containerfile``.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bench.kube_programs import cache

BASE: Final = "localhost/python:3.11"
ALLOTMENT: Final = "localhost/allotment:0.1.0"
#: The programs that build images.
BUILD_TOOLS: Final = ("buildah", "debootstrap")
_ROOT: Final = Path(__file__).parents[3]
_PACKAGES: Final = "python3,python3-venv,python-is-python3,ca-certificates"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEBIAN: Final = "http://deb.debian.org/debian"
_TRUSTED: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_CONTAINERFILE: Final = _ROOT / "deploy" / "Containerfile"
#: The extras that a component and a driver need; others would only make the image larger.
_EXTRAS: Final = "run,nvidia,amd"


def archives() -> tuple[Path, Path]:
    """The archives of both images, after building missing ones; Allotment's is built again when a source has
    changed."""
    kept = cache().parents[1] / "node"
    kept.mkdir(parents=True, exist_ok=True)
    base, allotment = kept / "python-bookworm.tar", kept / f"allotment-{_digest()}.tar"
    if not base.exists():
        _build_base(base)
    if not allotment.exists():
        _build_allotment(base, allotment)
        for old in set(kept.glob("allotment-*.tar")) - {allotment}:
            old.unlink()
    return base, allotment


def _digest() -> str:
    files = [_CONTAINERFILE, _ROOT / "pyproject.toml"]
    files += [path for path in (_ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    digest = hashlib.sha256(_EXTRAS.encode())
    for path in sorted(files):
        digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _build_base(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="allotment-node-base-") as text:
        folder = Path(text)
        _run(folder, "debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", f"{text}/root", _DEBIAN)
        shutil.rmtree(folder / "root/var/cache/apt")
        _buildah(folder, "from", "--name", "base", "scratch")
        _buildah(folder, "add", "base", f"{text}/root", "/")
        _buildah(folder, "config", f"--env=PATH={_PATH}", "--cmd", '["sleep", "infinity"]', "base")
        _buildah(folder, "commit", "base", BASE)
        _write_archive(folder, BASE, archive)


def _build_allotment(base: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="allotment-node-image-") as text:
        folder = Path(text)
        # Behind a proxy that signs its answers, pip must trust the certificates of this machine; the image does not.
        settings = folder / "pip.conf"
        settings.write_text("[global]\ncert = /trusted.crt\n" if _TRUSTED.exists() else "")
        volumes = [f"--volume={settings}:/etc/pip.conf:ro"]
        volumes += [f"--volume={_TRUSTED}:/trusted.crt:ro"] if _TRUSTED.exists() else []
        _buildah(folder, "pull", f"docker-archive:{base}")
        _buildah(
            folder, "build", "--isolation=chroot", "--network=host", "--pull-never", *volumes,
            f"--file={_CONTAINERFILE}", f"--build-arg=BASE={BASE}", f"--build-arg=EXTRAS={_EXTRAS}",
            f"--tag={ALLOTMENT}",
            str(_ROOT),
        )  # fmt: skip
        _write_archive(folder, ALLOTMENT, archive)


def _write_archive(folder: Path, image: str, archive: Path) -> None:
    """Write an image's archive; the file appears only when it is complete."""
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    _buildah(folder, "push", image, f"docker-archive:{part}:{image}")
    part.replace(archive)


def _buildah(folder: Path, *arguments: str) -> None:
    _run(folder, "buildah", "--root", f"{folder}/storage", "--runroot", f"{folder}/run", *arguments)


def _run(folder: Path, *command: str) -> None:
    """Run a command in a mount namespace of its own, so that no mount remains."""
    log = folder / "log"
    with log.open("ab") as output:
        alone = ("unshare", "--mount", "--propagation", "private")
        done = subprocess.run([*alone, *command], stdout=output, stderr=output, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}; output:\n{tail}")
