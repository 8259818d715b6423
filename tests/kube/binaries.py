"""Brings Kubernetes' own programs and etcd to this machine: ``python -m tests.kube.binaries``.

They are published as source only, so they are built, from Go modules whose digests are pinned in ``modules``, and kept
outside the project (:func:`bench.kube_programs.cache`). What is there already is not built again; a folder named by
``$ALLOTMENT_KUBE_BIN`` is taken as it is. The last line printed is the folder. ``--check`` builds nothing and tells
only whether there is a way to them.

Exit status: 0 they are there, 1 they could not be built, 3 nothing was tried, because Go is not here or too old.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.kube_programs import FOLDER, KUBERNETES, PROGRAMS, cache, missing

BUILT, FAILED, SKIPPED = 0, 1, 3
#: What makes a machine a node, beside runc: built by whoever needs one (:func:`built`).
OF_NODES: Final = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
CONTAINERD: Final = "v2.2.9"
MODULES: Final = Path(__file__).parent / "modules"
#: Modules come over the network, and the linker fills the disk: free space below this is told before minutes are spent.
LEAST_BYTES: Final = 5_000_000_000
_STAMPED: Final = "k8s.io/component-base/version"
_BEAT_SECONDS: Final = 30
#: What Go says, and what that means to whoever waits.
_REASONS: Final = (
    (r"no space left on device", "the disk is full"),
    (r"dial tcp|no such host|i/o timeout|connection refused|TLS handshake|proxyconnect|unexpected EOF",
     "the Go module proxy cannot be reached (GOPROXY); is there a network?"),
    (r"40[34] (Forbidden|Not Found)|410 Gone", "the Go module proxy does not give a module that is needed (GOPROXY)"),
    (r"SECURITY ERROR|checksum mismatch", "a module is not what it was when its digest was written down (go.sum)"),
    (r"signal: killed|cannot allocate memory|out of memory", "the memory is not enough; 4 GB will do"),
)  # fmt: skip


class Source(NamedTuple):
    """How a program is built: the folder of its module, its package, what is written into it."""

    module: str
    package: str
    stamp: Mapping[str, str]


def sources() -> dict[str, Source]:
    """How each of the programs is built."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamp = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = {f"{_STAMPED}.{key}": value for key, value in stamp.items()}
    of_kubernetes = {
        name: Source("kubernetes", f"k8s.io/kubernetes/cmd/{name}", stamps) for name in (*PROGRAMS[1:], "kubelet")
    }
    containerd = "github.com/containerd/containerd/v2"
    version = {f"{containerd}/version.Version": CONTAINERD}
    of_containerd = {name: Source("containerd", f"{containerd}/cmd/{name}", version) for name in OF_NODES[1:]}
    return {"etcd": Source("etcd", "go.etcd.io/etcd/server/v3", {}), **of_kubernetes, **of_containerd}


class Unbuilt(Exception):
    """Raised when the programs cannot be had; its text is one line for the user."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status


def brought(*, only_check: bool = False) -> Path:
    """The folder with the programs, built if they are not there; :class:`Unbuilt` when they cannot be."""
    if named := os.environ.get(FOLDER):
        if lacking := missing():
            raise Unbuilt(f"${FOLDER} is {named}: {', '.join(lacking)} not found there")
        return Path(named)
    return built(PROGRAMS, only_check=only_check)


def built(names: Sequence[str], *, only_check: bool = False) -> Path:
    """The folder of what was built, with these programs; :class:`Unbuilt` when they cannot be."""
    folder = cache()
    if all((folder / name).is_file() for name in names):
        return folder
    go = _go()
    if only_check:
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            for name in names:
                if not (folder / name).is_file():
                    _built(go, name, sources()[name], folder)
    except OSError as error:
        raise Unbuilt(f"{folder}: cannot be written: {error.strerror or error}") from None
    return folder


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise Unbuilt(
            "skipped: Go, with which Kubernetes' programs are built, is not here (https://go.dev/dl)", SKIPPED
        )
    told = subprocess.run([go, "version"], cwd=MODULES / "kubernetes", capture_output=True, check=False, text=True)
    if told.returncode:
        why = told.stderr.strip().splitlines()[-1:] or ["go version failed"]
        raise Unbuilt(f"skipped: this Go cannot build Kubernetes {KUBERNETES}: {why[0]}", SKIPPED)
    return go


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One builder at a time; a second one waits, and finds everything there."""
    with (folder / ".building").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _told("somebody else builds them: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _built(go: str, name: str, source: Source, folder: Path) -> None:
    """Build one program; it appears whole or not at all."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_BYTES:
        raise Unbuilt(f"{folder}: the disk is nearly full: {free / 1e9:.1f} of {LEAST_BYTES / 1e9:.0f} GB are free")
    flags = " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in source.stamp.items())])
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as text:
        part = Path(text) / name
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(part),
                   source.package]  # fmt: skip
        # The new encoder of JSON breaks Kubernetes' OpenAPI documents; without C, any machine with Go will do.
        environment = {**os.environ, "GOEXPERIMENT": "nojsonv2", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}
        _run(name, command, MODULES / source.module, environment, Path(text) / "log")
        part.replace(folder / name)


def _run(name: str, command: list[str], where: Path, environment: dict[str, str], log: Path) -> None:
    began = time.monotonic()
    _told(f"{name}: building")
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=where, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            while True:
                try:
                    status = process.wait(_BEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    _told(f"{name}: building, {time.monotonic() - began:.0f} s")
        except BaseException:
            process.terminate()
            raise
    if status:
        raise Unbuilt(f"{name}: cannot be built: {_reason(log.read_text(errors='replace'))}")
    _told(f"{name}: built in {time.monotonic() - began:.0f} s")


def _reason(log: str) -> str:
    for pattern, reason in _REASONS:
        if found := re.search(rf".*(?:{pattern}).*", log):
            return f"{reason}: {found[0].strip()[:300]}"
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("go: downloading")]
    return lines[-1].strip()[:300] if lines else "go build said nothing"


def _told(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Find or build; print the folder."""
    only_check = list(arguments) == ["--check"]
    if arguments and not only_check:
        print("usage: python -m tests.kube.binaries [--check]", file=sys.stderr)
        return 2
    try:
        folder = brought(only_check=only_check)
    except Unbuilt as unbuilt:
        print(unbuilt, file=sys.stderr)
        return unbuilt.status
    except KeyboardInterrupt:
        return 130
    print(folder)
    return BUILT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
