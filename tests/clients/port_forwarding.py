"""``kubectl port-forward`` while a test sends requests through it."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.clients.conftest import Lab
from tests.clients.tools import FOLDER

#: Maps a path to content type and body.
Fetch = Callable[[str], tuple[str, bytes]]


@contextmanager
def port_forward(lab: Lab, namespace: str, target: str, port: int) -> Iterator[Fetch]:
    """Send requests to a port of a pod or service, through kubectl on a local port that it chooses."""
    if not (FOLDER / "kubectl").is_file():
        pytest.skip("kubectl not found: `python -m tests.clients.tools` downloads it")
    command = ("-n", namespace, "port-forward", target, f":{port}", "--address", "127.0.0.1")
    process = subprocess.Popen(
        [str(FOLDER / "kubectl"), "--kubeconfig", str(lab.kubeconfig), *command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            assert found is not None, line

            def fetch(path: str) -> tuple[str, bytes]:
                with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=30) as answer:
                    return answer.headers["Content-Type"], answer.read()

            yield fetch
        finally:
            process.terminate()
