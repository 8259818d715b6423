"""The prose of pages is at most 100 columns wide."""

from __future__ import annotations

import subprocess
import sys

from tests.language.word_list import ROOT


def test_no_line_is_longer_than_it_must_be() -> None:
    script = ROOT / "scripts" / "wrap_docs"
    done = subprocess.run([sys.executable, script, "--check"], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
