import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpu_fractal.device_info import DeviceInfo
from gpu_fractal.settings import SettingError, settings_of
from gpu_fractal.site import Site

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = {"WIDTH": "64", "HEIGHT": "40", "SAMPLES": "1", "SEED": "1", "FORCE_CPU": "true"}


def stats_of(site: Site) -> Any:
    return json.loads(site.respond("/stats").body)


# --- without sockets
# ---------------------------------------------------------------------------------------------------


def test_a_site_draws_on_request_and_again_when_the_picture_is_old() -> None:
    site = Site({**SMALL, "INTERVAL": "0.05"})
    first = site.respond("/image.png")
    assert (first.status, first.content_type, first.body[1:4]) == (200, "image/png", b"PNG")
    time.sleep(0.06)
    assert site.respond("/image.png").body != first.body
    slow = Site({**SMALL, "INTERVAL": "60"})
    assert slow.respond("/image.png") == slow.respond("/image.png") == first
    assert stats_of(slow)["images"] == 1


def test_a_site_that_draws_continuously_does_not_draw_on_request() -> None:
    site = Site({**SMALL, "INTERVAL": "0"}, on_demand=False)
    assert site.refresh().png == site.respond("/image.png").body == site.respond("/image.png").body
    site.refresh()
    assert stats_of(site)["images"] == 2
    assert stats_of(site)["per_minute"] > 0


def test_the_same_seed_produces_the_same_pictures() -> None:
    pictures = [[site.refresh().png for _ in range(3)] for site in (Site(SMALL), Site(SMALL))]
    assert pictures[0] == pictures[1]
    assert len(set(pictures[0])) == 3
    assert Site({**SMALL, "SEED": "2"}).refresh().png != pictures[0][0]


def test_the_page_shows_the_picture_and_is_available_before_it() -> None:
    site = Site({"BACKEND": "nonsense"})
    page = site.respond("/?x=1")
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert b'src="image.png"' in page.body
    assert site.respond("/healthz") == (200, "text/plain; charset=utf-8", b"ok\n")
    assert site.respond("/etc/passwd").status == 404


def test_the_device_in_captions_can_be_set() -> None:
    site = Site(SMALL, DeviceInfo("NVIDIA A100-SXM4-40GB", "14 multiprocessors", "MIG 1g.5gb"))
    stats = stats_of(site)
    assert (stats["device"], stats["strategy"], stats["backend"]) == ("NVIDIA A100-SXM4-40GB", "MIG 1g.5gb", "numpy")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"BACKEND": "metal"}, "BACKEND: expected one of cupy, numba, numpy, python, simulated, found 'metal'"),
        ({"BACKEND": "simulated"}, "ALLOTMENT_GPU is not set: this container has no simulated GPU"),
        ({"ALLOTMENT_GPU": "/nowhere/gpu.sock#t"}, "no simulated GPU at /nowhere/gpu.sock: No such file or directory"),
        ({"WIDTH": "wide"}, "WIDTH: expected a number, found 'wide'"),
        ({"PORT": "70000"}, "PORT: expected 0 to 65535, found 70000"),
        ({"INTERVAL": "nan"}, "INTERVAL: expected 0 to 86400, found nan"),
    ],
)
def test_a_response_contains_the_error(variables: dict[str, str], message: str) -> None:
    response = Site(variables).respond("/image.png")
    assert (response.status, response.body.decode()) == (503, f"{message}\n")


def test_settings_have_defaults_and_a_random_seed() -> None:
    settings = settings_of({"INTERVAL": "", "FORCE_CPU": "false", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33"})
    assert (settings.host, settings.port, settings.interval) == ("127.0.0.1", 5000, 10.0)
    assert (settings.force_cpu, settings.threads) == (False, 33)
    assert settings.seed != settings_of({}).seed
    with pytest.raises(SettingError):
        settings_of({"SAMPLES": "9"})


# --- on a simulated GPU ----------------------------------------------------------------------------------------------


@contextmanager
def gpu(**responses: Any) -> Iterator[tuple[str, list[Any]]]:
    """Serve a simulated GPU with fixed responses by the first key of a request; yields its address and the requests."""
    requests: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="al-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder, "gpu.sock"))
        listener.bind(path)
        listener.listen()

        def respond() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    requests.append(json.loads(line))
                    verb = next(iter(requests[-1]))
                    if responses[verb] is None:
                        return
                    if responses[verb] == "never":
                        continue
                    connection.sendall(json.dumps(responses[verb]).encode() + b"\n")

        thread = threading.Thread(target=respond)
        thread.start()
        yield f"{path}#node/claim", requests
        thread.join(5)
        assert not thread.is_alive()


A100 = {
    "product": "NVIDIA A100-SXM4-40GB",
    "multiprocessors": 108,
    "memory": 40 << 30,
    "strategy": "mps",
    "threads": 33,
}
ON_GPU = {**SMALL, "FORCE_CPU": "", "GPU_WORK": "3.5", "GPU_BREADTH": "14", "GPU_MEMORY_MIB": "100"}


def test_memory_of_a_simulated_gpu_is_allocated_once_and_each_picture_runs_a_kernel() -> None:
    with gpu(open=A100, allocate={"allocation": 1}, run={"seconds": 0.25}) as (address, requests):
        site = Site({**ON_GPU, "ALLOTMENT_GPU": address, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20"})
        site.refresh()
        site.refresh()
        assert stats_of(site)["strategy"] == "MPS, side by side"
        site.close()
    run = {"run": 3.5, "width": 14}
    assert requests == [{"open": "node/claim", "threads": 20}, {"allocate": 100 << 20}, run, run]


def test_insufficient_memory_is_reported_with_the_gpus_error() -> None:
    error = {"error": "CUDA_ERROR_OUT_OF_MEMORY", "message": "out of memory: tried to allocate 100 MiB; …"}
    with gpu(open=A100, allocate=error) as (address, _):
        response = Site({**ON_GPU, "ALLOTMENT_GPU": address}).respond("/image.png")
    assert (response.status, response.body.decode()) == (
        503,
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory: tried to allocate 100 MiB; …\n",
    )


def test_a_failed_gpu_is_detected() -> None:
    with gpu(open=A100, allocate={"allocation": 1}, run=None) as (address, _):
        site = Site({**ON_GPU, "ALLOTMENT_GPU": address})
        assert b"the simulated GPU is gone" in site.respond("/image.png").body
        site.close()


def test_closing_a_site_does_not_wait_for_the_gpu() -> None:
    with gpu(open=A100, allocate={"allocation": 1}, run="never") as (address, requests):
        site = Site({**ON_GPU, "ALLOTMENT_GPU": address})
        bodies: list[bytes] = []
        client = threading.Thread(target=lambda: bodies.append(site.respond("/image.png").body))
        client.start()
        while not any("run" in request for request in requests):
            time.sleep(0.001)
        site.close()
        client.join(50)
        assert bodies == [b"CUDA_ERROR_DEVICE_UNAVAILABLE: the simulated GPU is gone\n"]
        assert site.respond("/image.png").body == b"the application has ended\n"


def test_force_cpu_does_not_use_the_gpu() -> None:
    assert stats_of(Site({**SMALL, "ALLOTMENT_GPU": "/nowhere#t"}))["backend"] == "numpy"


# --- as a process
# ------------------------------------------------------------------------------------------------------


@contextmanager
def process(**variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {"PATH": os.environ["PATH"], **SMALL, "PORT": "0", **variables}
    command = [sys.executable, "-m", "gpu_fractal"]
    with subprocess.Popen(
        command, cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        try:
            yield started, started.stdout.readline().partition(" ")[0].strip()
        finally:
            started.kill()


def test_the_process_serves_until_sigterm_and_then_exits_immediately() -> None:
    with process(BACKEND="python", INTERVAL="3600") as (started, address):
        with urllib.request.urlopen(f"{address}image.png") as response:
            assert response.headers["Content-Type"] == "image/png"
            assert response.headers["Cache-Control"] == "no-store"
            assert int(response.headers["Content-Length"]) == len(response.read())
        head = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(head) as response:
            assert response.read() == b""
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}other")
        started.send_signal(signal.SIGTERM)
        assert started.wait(50) == 0


def test_a_process_without_its_gpu_fails_with_a_message() -> None:
    with process(FORCE_CPU="", ALLOTMENT_GPU="/nowhere/gpu.sock#t") as (started, address):
        assert not address
        assert started.wait(50) == 1
        assert started.stderr is not None
        assert started.stderr.read() == "no simulated GPU at /nowhere/gpu.sock: No such file or directory\n"
