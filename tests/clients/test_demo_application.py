"""The articles' demo application, as their readers use it: ``kubectl apply``, ``kubectl port-forward``, a picture."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.conftest import Lab, Run
from tests.clients.port_forwarding import port_forward

A100 = "NVIDIA A100-SXM4-40GB"


class ExpectedPage(NamedTuple):
    """The service to query, and the device that page and picture show. ``labels`` select the pods that must be
    ready."""

    namespace: str
    labels: str
    target: str
    port: int
    device: str
    strategy: str
    share: str


#: By the applied files.
EXAMPLES: Mapping[tuple[str, ...], ExpectedPage] = {
    ("seed001-rct-ampere-20gi", "seed001-deployment-single"): ExpectedPage(
        "gpu-demo", "app=gpu-demo-app", "svc/gpu-demo-service", 80, A100, "whole GPU", "108 multiprocessors, 40 GiB"
    ),
    ("castai/01-basic",): ExpectedPage(
        "gpu-demo-basic", "app=gpu-demo-app", "svc/gpu-demo-service", 80, A100, "whole GPU",
        "108 multiprocessors, 40 GiB",
    ),
    ("castai/02-timeslicing",): ExpectedPage(
        "gpu-demo-timeslicing", "app=gpu-demo-app-ts", "deploy/gpu-demo-app-ts", 5000, A100,
        "time-slicing, long interval", "108 multiprocessors, 40 GiB",
    ),
    ("castai/03-mps-Volta",): ExpectedPage(
        "gpu-demo-mps-volta", "app=gpu-demo-app-mps", "deploy/gpu-demo-app-mps", 5000, "Tesla T4",
        "MPS, side by side", "33 % of 40 multiprocessors, 1 GiB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("files", EXAMPLES, ids=lambda files: files[-1])
def test_port_forward_shows_a_fractal_with_its_device(
    lab: Lab, kubectl: Run, shared: Callable[[str], Path], files: tuple[str, ...]
) -> None:
    shown = EXAMPLES[files]
    manifests = [str(shared("manifests") / f"{file}.yaml") for file in files]
    if not any("kind: Namespace" in Path(path).read_text() for path in manifests):
        kubectl("create", "namespace", shown.namespace)
    kubectl("apply", *(f"--filename={path}" for path in manifests))
    kubectl("-n", shown.namespace, "wait", "--for=condition=Ready", "pod", "-l", shown.labels, "--timeout=200s")
    with port_forward(lab, shown.namespace, shown.target, shown.port) as fetch:
        kind, page = fetch("/")
        assert kind.startswith("text/html")
        assert b'src="image.png"' in page
        kind, picture = fetch("/image.png")
        assert kind == "image/png"
        assert fetch("/healthz")[1] == b"ok\n"
        stats = json.loads(fetch("/stats")[1])
    assert (stats["device"], stats["strategy"], stats["share"]) == (shown.device, shown.strategy, shown.share)
    width, height, pixels, texts = decode_png(picture)
    assert (width, height) == (800, 500)
    assert len({pixels[at : at + 3] for at in range(0, len(pixels), 3 * 97)}) > 200  # the picture is not of one colour
    assert shown.device in texts["Software"]
    assert texts["Title"].startswith("Mandelbrot set")
    kubectl("delete", "namespace", shown.namespace, "--timeout=200s")


def decode_png(png: bytes) -> tuple[int, int, bytes, dict[str, str]]:
    """Width, height, rows (with their filters, which suffices to compare colours) and texts of a picture."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, data, texts = 8, b"", {}
    width = height = 0
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        body = png[place + 8 : place + 8 + length]
        (check,) = struct.unpack(">I", png[place + 8 + length : place + 12 + length])
        assert zlib.crc32(kind + body) == check, kind
        place += 12 + length
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", body[:10])
            assert (depth, colours) == (8, 2)
        elif kind == b"IDAT":
            data += body
        elif kind in (b"tEXt", b"iTXt"):
            name, _, text = body.partition(b"\0")
            texts[name.decode()] = text.decode("utf-8", "replace")
    assert kind == b"IEND"
    rows = zlib.decompress(data)
    assert len(rows) == height * (1 + 3 * width)
    return width, height, rows, texts
