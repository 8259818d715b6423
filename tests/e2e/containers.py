"""Real containers for the tests: the images file of a lab with ``--runtime oci``.

All images have one root file system with Kubernetes' ``agnhost``, the program of its test images, built from the
published module, and busybox. Nothing is pulled.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from allotment.node.runtimes.oci import find_program
from tests.kube.binaries import AGNHOST, build_missing, kubernetes_sources

_REGISTRY: Final = "registry.k8s.io/e2e-test-images"
_SHELL_IMAGES: Final = ("busybox",)
_WEB_IMAGES: Final = ("nginx", "httpd")
#: Images that consist of agnhost and some files of the folder ``html`` next to their Containerfile.
_PAGES: Final = ("nautilus", "kitten")
_FOLDERS: Final = ("bin", "etc", "home", "proc", "dev", "sys", "tmp", "run", "uploads", "usr/bin", "var/tmp")
#: Users and groups of the image, as its tests expect them.
_USERS: Final = """\
root:x:0:0:root:/root:/bin/sh
user-defined-in-image:x:1000:1000::/home:/bin/sh
nobody:x:65534:65534::/:/bin/false
"""
_GROUPS: Final = """\
root:x:0:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
"""
#: The image's entrypoint and its default argument.
_ENTRY: Final = """\
#!/bin/sh
[ $# = 0 ] && exec /agnhost pause
exec /agnhost "$@"
"""


def lacking() -> str:
    """Return what this machine lacks to run the containers; empty if nothing."""
    if find_program() is None:
        return "real containers require root, and crun or runc"
    busybox = shutil.which("busybox")
    if busybox is None:
        return "real containers require busybox (Debian: busybox-static)"
    # A dynamic one finds no libraries in the container.
    linked = subprocess.run(["ldd", busybox], capture_output=True, check=False)
    return "" if linked.returncode else "real containers require a static busybox (Debian: busybox-static)"


def images_file(folder: Path, release: str) -> Path:
    """Create root file systems and an images file in a folder. Raises BuildError."""
    agnhost = build_missing((AGNHOST,), release) / AGNHOST
    sources = kubernetes_sources(release) / "test/images"
    root = folder / "rootfs"
    _create_root(root, agnhost, sources)
    for image in _PAGES:
        shutil.copytree(root, folder / image, symlinks=True)
        for page in (sources / image / "html").iterdir():
            shutil.copy(page, folder / image / page.name)
    file = folder / "images.toml"
    file.write_text("\n".join(_entries()))
    return file


def _create_root(root: Path, agnhost: Path, sources: Path) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True)
    busybox = root / "bin/busybox"
    shutil.copy(shutil.which("busybox") or "", busybox)
    for command in subprocess.run([busybox, "--list"], capture_output=True, check=True, text=True).stdout.split():
        if command != busybox.name:
            (busybox.parent / command).symlink_to("/bin/busybox")
    shutil.copy(agnhost, root / "agnhost")
    (root / "agnhost-2").symlink_to("agnhost")
    for name in ("localhost.crt", "localhost.key"):
        shutil.copyfile(sources / "agnhost/porter" / name, root / name)
    (root / "etc/passwd").write_text(_USERS)
    (root / "etc/group").write_text(_GROUPS)
    entry = root / "entry"
    entry.write_text(_ENTRY)
    entry.chmod(0o755)


def _entries() -> Iterator[str]:
    yield _entry("registry.k8s.io/pause", "rootfs", "/entry", "pause")
    yield from (_entry(f"{_REGISTRY}/{image}", "rootfs", "/bin/sh") for image in _SHELL_IMAGES)
    yield from (_entry(f"{_REGISTRY}/{image}", "rootfs", "/entry", "test-webserver") for image in _WEB_IMAGES)
    yield from (_entry(f"{_REGISTRY}/{image}", image, "/entry", "test-webserver") for image in _PAGES)
    yield _entry(f"{_REGISTRY}/*", "rootfs", "/entry")


def _entry(pattern: str, root: str, *command: str) -> str:
    words = ", ".join(f'"{word}"' for word in command)
    return f'[[image]]\npattern = "{pattern}"\nrootfs = "{root}"\ncommand = [{words}]\ncommands = "run"\n'
