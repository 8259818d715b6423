"""The root file system of a container: the image's folder, with an overlay for what the container writes.

The mounts are made in a mount namespace of the OCI runtime's process, so that they end with it however it ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Arguments: the image's folder (as is, and escaped), the mount point, the folders for written files (escaped).
#: Where overlays are impossible, as in many containers, the root is read-only.
_MOUNT: Final = """
mount -t overlay overlay -o "lowerdir=$2,upperdir=$4,workdir=$5" "$3" 2>/dev/null ||
    { mount --bind "$1" "$3" && mount -o remount,bind,ro "$3"; } || exit 1
shift 5
exec "$@"
"""


def mounted(image: Path, root: Path) -> tuple[str, ...]:
    """The start of a command line that mounts an image's folder at ``root`` for the rest of the command.

    ``root`` is created, and next to it the folders for what is written.
    """
    written, work = root.with_name("written"), root.with_name("work")
    for folder in (root, written, work):
        folder.mkdir()
    image = image.resolve()
    folders = (str(image), _escaped(image), str(root), _escaped(written), _escaped(work))
    return ("unshare", "--mount", "sh", "-c", _MOUNT, "sh", *folders)


def _escaped(path: Path) -> str:
    r"""A path in mount options.

    >>> print(_escaped(Path("/a:b,c")))
    /a\:b\,c
    """
    text = str(path)
    for character in "\\:,":
        text = text.replace(character, "\\" + character)
    return text
