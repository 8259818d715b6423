"""``kubectl allot``: kubectl runs a program called ``kubectl-allot`` as if it were a command of its own.

Then everything is meant as kubectl means it: the cluster is that of the current context, whether a lab runs or not.
kubectl hands on what stands behind the name only, so ``--context`` stands there, too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

_FILES: Final = ("kubectl-allot", "kubectl_complete-allot")
_AS_PLUGIN: Final = "kubectl allot"
#: A line of help that shows a call, the gap behind it, and what it is for.
_CALL: Final = re.compile(r"^(  )allot (\S+(?: \S+)*)(?:( {2,})(.*))?$", re.MULTILINE)


def is_plugin() -> bool:
    """Whether this process was started by kubectl: as the plugin, or to complete its words."""
    return Path(sys.argv[0]).stem in _FILES


def name() -> str:
    """How the command is called.

    >>> name()
    'allot'
    """
    return _AS_PLUGIN if is_plugin() else "allot"


def renamed(text: str) -> str:
    """Help with the calls that it shows as they are written with kubectl; columns stay where they are.

    >>> print(renamed("  allot rbac --list      the parts"))
      kubectl allot rbac --list
                               the parts
    """

    def called(found: re.Match[str]) -> str:
        call = f"{found[1]}{_AS_PLUGIN} {found[2]}"
        if not found[3]:
            return call
        column = found.start(4) - found.start()
        return f"{call:<{column}}{found[4]}" if len(call) + 2 <= column else f"{call}\n{' ' * column}{found[4]}"

    return _CALL.sub(called, text)
