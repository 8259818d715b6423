"""Builds Kubernetes' own programs and etcd on this machine: ``python -m tests.kube.binaries [RELEASE…]``.

They are published as source only, so they are built from Go modules whose digests are pinned in ``modules``, and stored
outside the project (:func:`bench.kube_programs.cache`). All tested releases are built unless some are named (``1.36``);
a program that exists is not built again; a folder named by ``$ALLOTMENT_KUBE_BIN`` is used as it is. The last lines
printed are the folders. ``--check`` builds nothing and only reports whether the programs exist or can be built.

Exit status: 0 the programs exist, 1 they could not be built, 3 nothing was tried because Go is missing or too old.
"""

from __future__ import annotations

import fcntl
import json
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

from bench.kube_programs import FOLDER, PROGRAMS, RELEASE, RELEASES, cache, missing, selected_release

BUILT, FAILED, SKIPPED = 0, 1, 3
#: Programs that a node needs, besides runc; only callers that start a node build them (:func:`built`).
NODE_PROGRAMS: Final = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
#: Kubernetes' end-to-end tests, which only ``tests.e2e`` builds.
E2E_PROGRAM: Final = "e2e.test"
#: The program in the containers of these tests.
AGNHOST: Final = "agnhost"
CONTAINERD: Final = "v2.2.9"
MODULES: Final = Path(__file__).parent / "modules"
#: Free disk space required before a build starts: modules are downloaded, and the linker needs space as well.
MIN_FREE_BYTES: Final = 5_000_000_000
_STAMPED: Final = "k8s.io/component-base/version"
_PROGRESS_SECONDS: Final = 30
#: Patterns in Go's output, and the explanation printed for each.
_REASONS: Final = (
    (r"no space left on device", "the disk is full"),
    (r"dial tcp|no such host|i/o timeout|connection refused|TLS handshake|proxyconnect|unexpected EOF",
     "the Go module proxy cannot be reached (GOPROXY); is there a network?"),
    (r"40[34] (Forbidden|Not Found)|410 Gone", "the Go module proxy does not serve a required module (GOPROXY)"),
    (r"SECURITY ERROR|checksum mismatch", "a module does not match its recorded digest (go.sum)"),
    (r"signal: killed|cannot allocate memory|out of memory", "not enough memory; 4 GB are sufficient"),
)  # fmt: skip


class BuildSource(NamedTuple):
    """The build of one program: the folder of its module, its package, and the version values set by the linker.

    ``module``: a folder in ``modules``, or an absolute path. ``is_test``: whether the program consists of the package's
    tests.
    """

    module: str
    package: str
    stamp: Mapping[str, str]
    is_test: bool = False


def sources(release: str) -> dict[str, BuildSource]:
    """The build of each program of a minor release, by the program's name."""
    version = RELEASES[release]
    major, minor, _ = version.removeprefix("v").split(".")
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = {f"{_STAMPED}.{key}": value for key, value in stamp.items()}
    of_kubernetes = {
        name: BuildSource(_module(release), f"k8s.io/kubernetes/cmd/{name}", stamps)
        for name in (*PROGRAMS[1:], "kubelet")
    }
    tests = BuildSource(_module(release), "k8s.io/kubernetes/test/e2e", stamps, is_test=True)
    containerd = "github.com/containerd/containerd/v2"
    own_stamp = {f"{containerd}/version.Version": CONTAINERD}
    of_containerd = {
        name: BuildSource("containerd", f"{containerd}/cmd/{name}", own_stamp) for name in NODE_PROGRAMS[1:]
    }
    return {
        "etcd": BuildSource("etcd", "go.etcd.io/etcd/server/v3", {}),
        **of_kubernetes,
        E2E_PROGRAM: tests,
        AGNHOST: BuildSource(_module(release), "k8s.io/kubernetes/test/images/agnhost", {}),
        **of_containerd,
    }


def kubernetes_sources(release: str) -> Path:
    """The folder with the sources of Kubernetes, downloaded if necessary. Raises BuildError."""
    module = MODULES / _module(release)
    go = find_go(module, f"Kubernetes {RELEASES[release]}")
    command = [go, "mod", "download", "-json", f"k8s.io/kubernetes@{RELEASES[release]}"]
    environment = {**os.environ, "GOFLAGS": "", "GOWORK": "off"}
    done = subprocess.run(command, cwd=module, env=environment, capture_output=True, check=False, text=True)
    if done.returncode:
        raise BuildError(f"Kubernetes' sources: {_reason(done.stderr or done.stdout)}")
    return Path(json.loads(done.stdout)["Dir"])


def _module(release: str) -> str:
    """The folder with the pinned module of a minor release."""
    return f"kubernetes-{release}"


class BuildError(Exception):
    """Raised when the programs cannot be provided; the text is one line for the user."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status


def ensure_programs(release: str = "", *, only_check: bool = False) -> Path:
    """Return the folder with the programs of a minor release, by default the selected one, after building missing ones.

    Raises BuildError when that fails.
    """
    if named := os.environ.get(FOLDER):
        if lacking := missing():
            raise BuildError(f"${FOLDER} is {named}: {', '.join(lacking)} not found in it")
        return Path(named)
    return build_missing(PROGRAMS, release, only_check=only_check)


def build_missing(names: Sequence[str], release: str = "", *, only_check: bool = False) -> Path:
    """Return the folder of built programs, after building those named; raise BuildError when that fails."""
    release = release or selected_release()
    folder = cache(release)
    if all((folder / name).is_file() for name in names):
        return folder
    go = find_go(MODULES / _module(release), f"Kubernetes {RELEASES[release]}")
    if only_check:
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with build_lock(folder):
            for name in names:
                if not (folder / name).is_file() and not _copied(name, folder):
                    build(go, name, sources(release)[name], folder)
    except OSError as error:
        raise BuildError(f"{folder}: not writable: {error.strerror or error}") from None
    return folder


def _copied(name: str, folder: Path) -> bool:
    """Whether etcd could be copied from the folder of another release, which uses the same one."""
    others = (cache(release) / name for release in RELEASES)
    existing = next((path for path in others if name == "etcd" and path.is_file()), None)
    if existing is None:
        return False
    part = folder / f".part-{name}"
    shutil.copy2(existing, part)
    part.replace(folder / name)
    _report(f"{name}: copied from {existing.parent.name}")
    return True


def find_go(module: Path, what: str) -> str:
    """Return the path of a Go that can build the module in a folder. Raises BuildError."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"skipped: Go not found; it is required to build {what} (https://go.dev/dl)", SKIPPED)
    done = subprocess.run([go, "version"], cwd=module, capture_output=True, check=False, text=True)
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1:] or ["go version failed"]
        raise BuildError(f"skipped: this Go cannot build {what}: {why[0]}", SKIPPED)
    return go


@contextmanager
def build_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: one process builds at a time; a second one waits and finds the programs built."""
    with (folder / ".building").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report("another process is building them: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(go: str, name: str, source: BuildSource, folder: Path) -> None:
    """Build one program; the file appears only when it is complete."""
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise BuildError(
            f"{folder}: the disk is nearly full: {free / 1e9:.1f} of {MIN_FREE_BYTES / 1e9:.0f} GB are free"
        )
    flags = " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in source.stamp.items())])
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as text:
        part = Path(text) / name
        # Vetting would compile and analyze all dependencies first, which takes longer than the build.
        verb = ("test", "-c", "-vet=off") if source.is_test else ("build",)
        command = [go, *verb, "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(part),
                   source.package]  # fmt: skip
        # Go's new JSON encoder breaks Kubernetes' OpenAPI documents. Without cgo, no C compiler is required.
        environment = {**os.environ, "GOEXPERIMENT": "nojsonv2", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}
        _run(name, command, MODULES / source.module, environment, Path(text) / "log")
        part.replace(folder / name)


def _run(name: str, command: list[str], where: Path, environment: dict[str, str], log: Path) -> None:
    start = time.monotonic()
    _report(f"{name}: building")
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=where, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            while True:
                try:
                    status = process.wait(_PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    _report(f"{name}: building, {time.monotonic() - start:.0f} s")
        except BaseException:
            process.terminate()
            raise
    if status:
        raise BuildError(f"{name}: cannot be built: {_reason(log.read_text(errors='replace'))}")
    _report(f"{name}: built in {time.monotonic() - start:.0f} s")


def _reason(log: str) -> str:
    for pattern, reason in _REASONS:
        if found := re.search(rf".*(?:{pattern}).*", log):
            return f"{reason}: {found[0].strip()[:300]}"
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("go: downloading")]
    return lines[-1].strip()[:300] if lines else "go build printed nothing"


def _report(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Find or build the programs and print their folders."""
    named = [argument for argument in arguments if argument != "--check"]
    if any(name not in RELEASES for name in named):
        print(f"usage: python -m tests.kube.binaries [--check] [{'|'.join(RELEASES)}]…", file=sys.stderr)
        return 2
    one_only = FOLDER in os.environ or RELEASE in os.environ
    folders: dict[Path, None] = {}
    try:
        for release in named or ([selected_release()] if one_only else RELEASES):
            folders[ensure_programs(release, only_check="--check" in arguments)] = None
    except BuildError as unbuilt:
        print(unbuilt, file=sys.stderr)
        return unbuilt.status
    except KeyboardInterrupt:
        return 130
    print(*folders, sep="\n")
    return BUILT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
