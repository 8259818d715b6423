"""``kubectl allot``: detects that kubectl started the program, and adapts its name in messages and help.

As a plugin, the command uses kubectl's current context, even if a lab is running.
kubectl passes on only the arguments after the name, so ``--context`` must follow it, too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

_FILES: Final = ("kubectl-allot", "kubectl_complete-allot")
_AS_PLUGIN: Final = "kubectl allot"
#: A help line with an example: the command, the gap, and its description.
_CALL: Final = re.compile(r"^(  )allot (\S+(?: \S+)*)(?:( {2,})(.*))?$", re.MULTILINE)


def is_plugin() -> bool:
    """Return whether kubectl started this process, as the plugin or for completion."""
    return Path(sys.argv[0]).stem in _FILES


def name() -> str:
    """Return the program's name for messages.

    >>> name()
    'allot'
    """
    return _AS_PLUGIN if is_plugin() else "allot"


def renamed(text: str) -> str:
    """Return help with the examples rewritten for kubectl, keeping the columns.

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
