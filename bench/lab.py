"""The lab and the real control plane: the same load on both, in one run, one after the other.

``python -m bench.lab`` prints one line per measurement: the lab, the real control plane where its programs are
installed (see :mod:`~bench.real_kube`), and the ratio. The lab stores its data on disk and uses TLS, as the real server
does.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from allotment.lab.http_server import new_event_loop
from allotment.model.loading import load_paths
from bench import real_kube
from bench.control_plane import Bound, Scale, Writes, binding, throughput
from bench.http_load import Figures
from bench.server import BenchServer

SECONDS: Final = 5.0
SCALES: Final = (Scale(400, 100, 8), Scale(5000, 500, 12))
_IDLE_SECONDS: Final = 10.0
#: The real control plane needs minutes for more.
_REAL_PODS: Final = 400
_READY_SECONDS: Final = 30

T = TypeVar("T")
Starting = Callable[[], AbstractContextManager[BenchServer]]


class Started(NamedTuple):
    """A running lab."""

    server: BenchServer
    process: subprocess.Popen[bytes]
    seconds: float


@contextmanager
def lab(*flags: str) -> Iterator[Started]:
    """Run ``allot up`` with these options until the context ends."""
    with tempfile.TemporaryDirectory(prefix="lab-") as text:
        folder = Path(text)
        kubeconfig, log = folder / "kubeconfig", folder / "log"
        environment = {**os.environ, "XDG_STATE_HOME": f"{folder}/state", "XDG_DATA_HOME": f"{folder}/data"}
        command = [sys.executable, "-m", "allotment.cli.main", "up", "--name", "bench", "--port", "0",
                   "--kubeconfig", str(kubeconfig), *flags]  # fmt: skip
        start = time.perf_counter()
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            while not kubeconfig.is_file():
                if process.poll() is not None or time.perf_counter() - start > _READY_SECONDS:
                    raise RuntimeError(f"the lab did not start:\n{log.read_text(errors='replace')}")
                time.sleep(0.002)
            yield Started(_server(kubeconfig, folder), process, time.perf_counter() - start)
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def durable_lab(*flags: str) -> Iterator[BenchServer]:
    """A lab that stores its data on disk, without machines of its own."""
    with tempfile.TemporaryDirectory(prefix="data-") as data, lab("--data-dir", data, "--fleet", "", *flags) as started:
        yield started.server


def _server(kubeconfig: Path, folder: Path) -> BenchServer:
    config = load_paths([kubeconfig]).documents[0].tree
    url = urlsplit(config["clusters"][0]["cluster"]["server"])
    user = config["users"][0]["user"]
    paths = []
    for name in ("client-certificate-data", "client-key-data"):
        path = folder / name
        path.write_bytes(base64.b64decode(user.get(name, "")))
        paths.append(str(path))
    tls = url.scheme == "https"
    certificate, key = paths if tls else ("", "")
    return BenchServer(url.hostname or "", url.port or 0, tls, certificate=certificate, key=key)


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def _throughput(starting: Starting) -> tuple[Writes, Figures]:
    with starting() as server:
        return _run(throughput(server, SECONDS))


def _binding(starting: Starting, scale: Scale) -> Bound:
    with starting() as server:
        return _run(binding(server, scale))


def _idle() -> tuple[float, float, float]:
    """Of an ephemeral lab: seconds until it is ready, share of a core when idle, memory in MB."""
    with lab("--ephemeral", "--fleet", "dgx-a100-40gb:2") as started:
        time.sleep(3)
        before = _cpu_seconds(started.process.pid)
        time.sleep(_IDLE_SECONDS)
        share = (_cpu_seconds(started.process.pid) - before) / _IDLE_SECONDS
        status = Path(f"/proc/{started.process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return started.seconds, share, resident / 1024


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _line(label: str, lab_value: str, real_value: str = "", ratio: float | None = None) -> str:
    return f"{label:<46} {lab_value:>12} {real_value:>12} {'' if ratio is None else f'{ratio:.1f}x':>7}".rstrip()


def main() -> int:
    """Measure and print."""
    paths = real_kube.programs()
    if paths is None:
        print(f"SKIPPED: the real control plane is not measured: {', '.join(real_kube.PROGRAMS)} not found")
    real: Starting | None = partial(real_kube.control_plane, paths) if paths else None
    print(_line("", "lab", "real", None) if real else _line("", "lab"))
    ready, share, memory = _idle()
    print(_line("allot up --ephemeral: startup time (s)", f"{ready:.2f}"))
    print(_line("idle: CPU (share of a core), memory (MB)", f"{share:.1%} {memory:.0f}"))
    real_starting = _throughput(real) if real else None
    for name, starting in (("TLS", partial(durable_lab)), ("no TLS", partial(durable_lab, "--http"))):
        _throughput_lines(name, _throughput(starting), real_starting)
    for scale in SCALES:
        lab_binding = _binding(partial(durable_lab), scale)
        small = real is not None and scale.pods <= _REAL_PODS
        them = _binding(real, scale) if real is not None and small else None
        rate = f"{them.rate:,.0f}" if them else ""
        print(
            _line(f"{scale} (pods/s)", f"{lab_binding.rate:,.0f}", rate, lab_binding.rate / them.rate if them else None)
        )
        print(_line("  pod latency: p50, p99 (ms)", f"{lab_binding.p50:,.0f} {lab_binding.p99:,.0f}",
                    f"{them.p50:,.0f} {them.p99:,.0f}" if them else ""))  # fmt: skip
    return 0


def _throughput_lines(
    name: str, lab_figures: tuple[Writes, Figures], real_figures: tuple[Writes, Figures] | None
) -> None:
    (writes, reads), (real_writes, real_reads) = lab_figures, real_figures or (None, None)
    for label, lab_part, reference, more in (
        (f"POST pod, 4 watchers, {name} (1/s)", writes.load.rate, real_writes and real_writes.load.rate, True),
        ("  event after POST, p50 (ms)", writes.delay_p50, real_writes and real_writes.delay_p50, False),
        (f"GET pod, {name} (1/s)", reads.rate, real_reads and real_reads.rate, True),
    ):
        ratio = None if reference is None else lab_part / reference if more else reference / lab_part
        shown = [f"{value:,.0f}" if more else f"{value:.1f}" for value in (lab_part, reference or 0)]
        print(_line(label, shown[0], shown[1] if reference else "", ratio))


if __name__ == "__main__":
    sys.exit(main())
