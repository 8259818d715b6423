"""``allot replay``: a trace under several policies, run by run; what is made is kept, and goes on after a stop."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from allotment.cli.output.errors import Mistake

_INSTALL: Final = "pip install 'allotment[plan]'"
#: What the extra brings; anything else that is missing is a defect of ours.
_NEEDED: Final = frozenset({"numpy", "matplotlib"})


def run(arguments: Namespace) -> int:
    """Replay, or say what has to be installed first."""
    try:
        from allotment.cli.replay.runner import run as replay

        return replay(arguments)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _NEEDED:
            raise
        raise Mistake(f"allot replay needs {error.name}, which is not installed", _INSTALL) from None
