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

from gpu_fractal.about import About
from gpu_fractal.settings import Unreadable, settings_of
from gpu_fractal.site import Site

EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = {"WIDTH": "64", "HEIGHT": "40", "SAMPLES": "1", "SEED": "1", "FORCE_CPU": "true"}


def stats_of(site: Site) -> Any:
    return json.loads(site.respond("/stats").body)


# --- without sockets -------------------------------------------------------------------------------------------------


def test_a_site_draws_when_somebody_looks_and_again_when_the_picture_is_old() -> None:
    site = Site({**SMALL, "INTERVAL": "0.05"})
    first = site.respond("/image.png")
    assert (first.status, first.content_type, first.body[1:4]) == (200, "image/png", b"PNG")
    time.sleep(0.06)
    assert site.respond("/image.png").body != first.body
    slow = Site({**SMALL, "INTERVAL": "60"})
    assert slow.respond("/image.png") == slow.respond("/image.png") == first
    assert stats_of(slow)["images"] == 1


def test_one_that_draws_by_itself_does_not_draw_for_who_looks() -> None:
    site = Site({**SMALL, "INTERVAL": "0"}, on_demand=False)
    assert site.refresh().png == site.respond("/image.png").body == site.respond("/image.png").body
    site.refresh()
    assert stats_of(site)["images"] == 2
    assert stats_of(site)["per_minute"] > 0


def test_the_same_seed_gives_the_same_pictures() -> None:
    pictures = [[site.refresh().png for _ in range(3)] for site in (Site(SMALL), Site(SMALL))]
    assert pictures[0] == pictures[1]
    assert len(set(pictures[0])) == 3
    assert Site({**SMALL, "SEED": "2"}).refresh().png != pictures[0][0]


def test_the_page_shows_the_picture_and_is_there_before_it() -> None:
    site = Site({"BACKEND": "nonsense"})
    page = site.respond("/?x=1")
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert b'src="image.png"' in page.body
    assert site.respond("/healthz") == (200, "text/plain; charset=utf-8", b"ok\n")
    assert site.respond("/etc/passwd").status == 404


def test_what_a_picture_says_can_be_told_by_who_knows_better() -> None:
    site = Site(SMALL, About("NVIDIA A100-SXM4-40GB", "14 multiprocessors", "MIG 1g.5gb"))
    stats = stats_of(site)
    assert (stats["device"], stats["strategy"], stats["backend"]) == ("NVIDIA A100-SXM4-40GB", "MIG 1g.5gb", "numpy")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"BACKEND": "metal"}, "BACKEND: wanted one of cupy, numba, numpy, python, simulated, found 'metal'"),
        ({"BACKEND": "simulated"}, "ALLOTMENT_GPU is not set: this container has no simulated GPU"),
        ({"ALLOTMENT_GPU": "/nowhere/gpu.sock#t"}, "no simulated GPU at /nowhere/gpu.sock: No such file or directory"),
        ({"WIDTH": "wide"}, "WIDTH: wanted a number, found 'wide'"),
        ({"PORT": "70000"}, "PORT: wanted 0 to 65535, found 70000"),
        ({"INTERVAL": "nan"}, "INTERVAL: wanted 0 to 86400, found nan"),
    ],
)
def test_what_is_wrong_is_told_to_who_looks(variables: dict[str, str], told: str) -> None:
    response = Site(variables).respond("/image.png")
    assert (response.status, response.body.decode()) == (503, f"{told}\n")


def test_settings_have_defaults_and_a_chance_seed() -> None:
    settings = settings_of({"INTERVAL": "", "FORCE_CPU": "false", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "33"})
    assert (settings.host, settings.port, settings.interval) == ("127.0.0.1", 5000, 10.0)
    assert (settings.force_cpu, settings.threads) == (False, 33)
    assert settings.seed != settings_of({}).seed
    with pytest.raises(Unreadable):
        settings_of({"SAMPLES": "9"})


# --- on a simulated GPU ----------------------------------------------------------------------------------------------


@contextmanager
def gpu(**answers: Any) -> Iterator[tuple[str, list[Any]]]:
    """Something that answers like a simulated GPU: by the first word of a request."""
    asked: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="al-") as folder, socket.socket(socket.AF_UNIX) as listening:
        path = str(Path(folder, "gpu.sock"))
        listening.bind(path)
        listening.listen()

        def answer() -> None:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    asked.append(json.loads(line))
                    verb = next(iter(asked[-1]))
                    if answers[verb] is None:
                        return
                    if answers[verb] == "never":
                        continue
                    connection.sendall(json.dumps(answers[verb]).encode() + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"{path}#node/claim", asked
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


def test_a_simulated_gpu_is_asked_for_memory_once_and_for_time_with_each_picture() -> None:
    with gpu(open=A100, allocate={"allocation": 1}, run={"seconds": 0.25}) as (address, asked):
        site = Site({**ON_GPU, "ALLOTMENT_GPU": address, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20"})
        site.refresh()
        site.refresh()
        assert stats_of(site)["strategy"] == "MPS, side by side"
        site.close()
    run = {"run": 3.5, "width": 14}
    assert asked == [{"open": "node/claim", "threads": 20}, {"allocate": 100 << 20}, run, run]


def test_too_little_memory_is_told_in_the_words_of_the_gpu() -> None:
    refused = {"error": "CUDA_ERROR_OUT_OF_MEMORY", "message": "out of memory: tried to allocate 100 MiB; …"}
    with gpu(open=A100, allocate=refused) as (address, _):
        response = Site({**ON_GPU, "ALLOTMENT_GPU": address}).respond("/image.png")
    assert (response.status, response.body.decode()) == (
        503,
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory: tried to allocate 100 MiB; …\n",
    )


def test_a_gpu_that_dies_is_noticed() -> None:
    with gpu(open=A100, allocate={"allocation": 1}, run=None) as (address, _):
        site = Site({**ON_GPU, "ALLOTMENT_GPU": address})
        assert b"the simulated GPU is gone" in site.respond("/image.png").body
        site.close()


def test_a_site_that_is_closed_waits_for_no_gpu() -> None:
    with gpu(open=A100, allocate={"allocation": 1}, run="never") as (address, asked):
        site = Site({**ON_GPU, "ALLOTMENT_GPU": address})
        told: list[bytes] = []
        looking = threading.Thread(target=lambda: told.append(site.respond("/image.png").body))
        looking.start()
        while not any("run" in request for request in asked):
            time.sleep(0.001)
        site.close()
        looking.join(50)
        assert told == [b"CUDA_ERROR_DEVICE_UNAVAILABLE: the simulated GPU is gone\n"]
        assert site.respond("/image.png").body == b"the application has ended\n"


def test_a_gpu_is_left_alone_where_the_cpu_is_forced() -> None:
    assert stats_of(Site({**SMALL, "ALLOTMENT_GPU": "/nowhere#t"}))["backend"] == "numpy"


# --- as a process ----------------------------------------------------------------------------------------------------


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


def test_the_process_serves_until_it_is_told_to_end_and_then_ends_at_once() -> None:
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


def test_a_process_without_its_gpu_says_so_and_fails() -> None:
    with process(FORCE_CPU="", ALLOTMENT_GPU="/nowhere/gpu.sock#t") as (started, address):
        assert not address
        assert started.wait(50) == 1
        assert started.stderr is not None
        assert started.stderr.read() == "no simulated GPU at /nowhere/gpu.sock: No such file or directory\n"
