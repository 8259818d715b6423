"""``kubectl port-forward`` for as long as a test asks through it."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.clients.conftest import Lab
from tests.clients.tools import FOLDER

#: A path to content type and body.
Ask = Callable[[str], tuple[str, bytes]]


@contextmanager
def forwarded(lab: Lab, namespace: str, target: str, port: int) -> Iterator[Ask]:
    """Requests to a port of a pod, or of a service's, through kubectl on a port that it chooses."""
    if not (FOLDER / "kubectl").is_file():
        pytest.skip("kubectl is not there: `python -m tests.clients.tools` fetches it")
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

            def ask(path: str) -> tuple[str, bytes]:
                with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=30) as answer:
                    return answer.headers["Content-Type"], answer.read()

            yield ask
        finally:
            process.terminate()
