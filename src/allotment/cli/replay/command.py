"""``allot replay``: runs a trace with several policies, and resumes after an interruption."""

from __future__ import annotations

from argparse import Namespace

from allotment.extras import require


def run(arguments: Namespace) -> int:
    """Run a replay; return its exit code."""
    require("allot replay", "plan", modules=("numpy", *(("matplotlib",) if arguments.picture is not None else ())))
    from allotment.cli.replay.runner import run as replay

    return replay(arguments)
