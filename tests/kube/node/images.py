"""The images of the node's containers: no registry is asked, so they are made here and kept for the next time.

``localhost/python`` is a Debian with its Python that sleeps: the base of ours, the pause image, and what pods of the
story run. ``localhost/allotment`` is what ``deploy/Containerfile`` makes on it.
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
OURS: Final = "localhost/allotment:0.1.0"
#: Programs that make images.
MAKERS: Final = ("buildah", "debootstrap")
_ROOT: Final = Path(__file__).parents[3]
_PACKAGES: Final = "python3,python3-venv,python-is-python3,ca-certificates"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEBIAN: Final = "http://deb.debian.org/debian"
_TRUSTED: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_CONTAINERFILE: Final = _ROOT / "deploy" / "Containerfile"
#: What a component and a driver need. All else would only make the image larger.
_EXTRAS: Final = "run,nvidia,amd"


def archives() -> tuple[Path, Path]:
    """Both images as archives; made if they are not there, ours anew when something in it has changed."""
    kept = cache().parents[1] / "node"
    kept.mkdir(parents=True, exist_ok=True)
    base, ours = kept / "python-bookworm.tar", kept / f"allotment-{_digest()}.tar"
    if not base.exists():
        _based(base)
    if not ours.exists():
        _ours(base, ours)
        for old in set(kept.glob("allotment-*.tar")) - {ours}:
            old.unlink()
    return base, ours


def _digest() -> str:
    files = [_CONTAINERFILE, _ROOT / "pyproject.toml"]
    files += [path for path in (_ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    told = hashlib.sha256(_EXTRAS.encode())
    for path in sorted(files):
        told.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    return told.hexdigest()[:16]


def _based(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="allotment-node-base-") as text:
        folder = Path(text)
        _run(folder, "debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", f"{text}/root", _DEBIAN)
        shutil.rmtree(folder / "root/var/cache/apt")
        _buildah(folder, "from", "--name", "base", "scratch")
        _buildah(folder, "add", "base", f"{text}/root", "/")
        _buildah(folder, "config", f"--env=PATH={_PATH}", "--cmd", '["sleep", "infinity"]', "base")
        _buildah(folder, "commit", "base", BASE)
        _pushed(folder, BASE, archive)


def _ours(base: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="allotment-node-image-") as text:
        folder = Path(text)
        # Where a proxy signs what registries say, pip must trust whom this machine trusts; the image does not.
        settings = folder / "pip.conf"
        settings.write_text("[global]\ncert = /trusted.crt\n" if _TRUSTED.exists() else "")
        volumes = [f"--volume={settings}:/etc/pip.conf:ro"]
        volumes += [f"--volume={_TRUSTED}:/trusted.crt:ro"] if _TRUSTED.exists() else []
        _buildah(folder, "pull", f"docker-archive:{base}")
        _buildah(
            folder, "build", "--isolation=chroot", "--network=host", "--pull-never", *volumes,
            f"--file={_CONTAINERFILE}", f"--build-arg=BASE={BASE}", f"--build-arg=EXTRAS={_EXTRAS}", f"--tag={OURS}",
            str(_ROOT),
        )  # fmt: skip
        _pushed(folder, OURS, archive)


def _pushed(folder: Path, image: str, archive: Path) -> None:
    """Write an image's archive; it appears whole or not at all."""
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    _buildah(folder, "push", image, f"docker-archive:{part}:{image}")
    part.replace(archive)


def _buildah(folder: Path, *words: str) -> None:
    _run(folder, "buildah", "--root", f"{folder}/storage", "--runroot", f"{folder}/run", *words)


def _run(folder: Path, *command: str) -> None:
    """In mounts of its own, so that none is left however it ends."""
    log = folder / "log"
    with log.open("ab") as output:
        alone = ("unshare", "--mount", "--propagation", "private")
        done = subprocess.run([*alone, *command], stdout=output, stderr=output, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}; it said:\n{tail}")
