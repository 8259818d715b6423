"""The images file: maps container images to commands and root file systems of this machine, because nothing is pulled.

An image that the file does not list does not start, and a manifest's own command runs only if the entry of its image
allows it. With the ``process`` runtime such a command has all permissions of the user who started the agent.

An example::

    [[image]]
    pattern = "registry.example/server"            # any tag; `*` matches anything
    command = ["{python}", "-m", "http.server", "{port}"]
    env = { LANG = "C.UTF-8" }

    [[image]]
    pattern = "ubuntu:22.04"
    commands = "run"                               # run the manifest's command on this machine

    [[image]]
    pattern = "busybox"
    rootfs = "rootfs/busybox"                      # for OCI runtimes: a folder, relative to this file
    command = ["sh"]
    commands = "run"

In ``command``, ``{python}`` is the interpreter that runs the agent, ``{port}`` the port to listen on.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from allotment.checkout import APPLICATION, examples_folder
from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.model.trees import Tree
from allotment.node.runtimes.runtime import NotStarted

#: Policy for a manifest's command: ``refused`` fails the start, ``ignored`` runs the image's own, ``run`` runs it.
Commands = Literal["refused", "ignored", "run"]

#: The image of the articles' GPU demo.
DEMO: Final = "ghcr.io/castai/gpu-demo-app"
_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")
_PLACEHOLDERS: Final = ("python", "port")
_DEFAULT_HOST: Final = re.compile(r"(?:docker\.io/)?(?:library/)?")


class InvalidImages(InputError, ValueError):
    """Raised for an invalid images file; the text has file, entry, field and what was expected."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, argument="images")


class Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry for images of a pattern. ``directory``: working directory; ``rootfs``: for OCI runtimes."""

    pattern: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    directory: str = ""
    rootfs: str = ""
    commands: Commands = "refused"

    def variables(self, spec: Tree) -> dict[str, str]:
        """The image's environment, without what the manifest sets."""
        written = {variable["name"] for variable in spec.get("env") or ()}
        return {name: value for name, value in self.env.items() if name not in written}

    def words(self, spec: Tree, words: Sequence[str], port: int | None, *, walled: bool = False) -> tuple[str, ...]:
        """The command line of a container: as in Kubernetes, ``command`` replaces the image's and ``args`` follow it.

        ``spec``: the container's; ``words``: its command and arguments, resolved. ``walled``: it runs isolated in a
        real container, so a manifest's command is allowed. Raises NotStarted.
        """
        own = tuple(_filled(word, port) for word in self.command)
        if self.commands == "ignored":
            found = own
        elif not spec.get("command"):
            found = (*own, *words)
        elif walled or self.commands == "run":
            found = tuple(words)
        else:
            raise NotStarted(
                "CreateContainerError",
                f"image {spec.get('image')!r} runs only its own command, but the manifest sets a different one, which "
                f'would run on this machine. To allow that, set commands = "run" for pattern = "{self.pattern}"; to '
                f'run the image\'s own command instead, set commands = "ignored"',
            )
        if not found:
            raise NotStarted("CreateContainerError", f"image {spec.get('image')!r}: no command specified")
        return found


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    image: tuple[Image, ...] = ()


class Images:
    """The entries of an images file; the first match is used. ``source``: the file name shown in messages."""

    def __init__(self, entries: Sequence[Image], source: str = "images.toml") -> None:
        self.entries = tuple(entries)
        self.source = source
        self._patterns = [(_expression(entry.pattern), entry) for entry in entries]

    def find(self, name: str) -> Image | None:
        """The first entry that matches an image, or None.

        >>> Images([Image("ubuntu"), Image("*/demo:v1")]).find("docker.io/library/ubuntu:22.04").pattern
        'ubuntu'
        """
        spellings = tuple(_spellings(name))
        for expression, entry in self._patterns:
            if any(expression.fullmatch(spelling) for spelling in spellings):
                return entry
        return None

    def take(self, spec: Tree) -> Image:
        """The entry of a container's image. Raises NotStarted like a failed image pull."""
        name = spec.get("image", "")
        if entry := self.find(name):
            return entry
        what_to_do = f'images are not pulled: add an [[image]] with pattern = "{name}" to {self.source}'
        if spec.get("imagePullPolicy") == "Never":
            message = f'Container image "{name}" is not present with pull policy of Never'
            raise NotStarted("ErrImageNeverPull", f"{message}; {what_to_do}")
        raise NotStarted("ErrImagePull", f"not found; {what_to_do}")


def read_images(path: Path) -> Images:
    """Read an images file; its folders are relative to it. Raises InvalidImages."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidImages(f"{path}: images file not found") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidImages(f"{path}: cannot read the images file: {error}") from None
    return parse_images(text, str(path), path.absolute().parent)


def demo_images() -> Images:
    """The images available without a file: in a source tree, its own application for the articles' GPU demo.

    A manifest's command and arguments are ignored.
    """
    source, folder = "a file passed with --images", examples_folder()
    if folder is None:
        return Images((), source)
    command = ("{python}", "-m", APPLICATION)
    return Images((Image(DEMO, command, directory=str(folder), commands="ignored"),), source)


def parse_images(text: str, source: str, folder: Path) -> Images:
    """Parse an images file; its folders are relative to ``folder``. Raises InvalidImages with all errors."""
    try:
        file = msgspec.convert(tomllib.loads(text), decodable(_File))
    except tomllib.TOMLDecodeError as error:
        raise InvalidImages(f"{source}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise InvalidImages(f"{source}: {error}") from None
    entries = [
        msgspec.structs.replace(
            entry,
            directory=str(folder / entry.directory) if entry.directory else "",
            rootfs=str(folder / entry.rootfs) if entry.rootfs else "",
        )
        for entry in file.image
    ]
    if faults := list(_faults(entries)):
        raise InvalidImages("\n".join(f"{source}: {fault}" for fault in faults))
    return Images(entries, source)


def _faults(entries: Sequence[Image]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        where = f"image {number} ({entry.pattern or 'no pattern'})"
        if not entry.pattern.strip():
            yield f"{where}: pattern: expected an image name, found nothing"
        elif seen.setdefault(entry.pattern, number) != number:
            yield f"{where}: pattern: same as image {seen[entry.pattern]}, which matches first"
        if not entry.command and entry.commands != "run":
            yield f'{where}: command: expected a program and its arguments (or commands = "run"), found none'
        for word in entry.command:
            for name in _PLACEHOLDER.findall(word):
                if name not in _PLACEHOLDERS:
                    yield f"{where}: command: expected {{python}} or {{port}}, found {{{name}}}"
        for name in entry.env:
            if not name or "=" in name:
                yield f"{where}: env: expected a variable name, found {name!r}"
        for field in ("directory", "rootfs"):
            place = getattr(entry, field)
            if place and not Path(place).is_dir():
                yield f"{where}: {field}: directory not found: {place}"


def _filled(word: str, port: int | None) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] == "python":
            return sys.executable
        if port is None:
            raise NotStarted("CreateContainerError", f"{word!r}: expected a containerPort in the manifest, found none")
        return str(port)

    return _PLACEHOLDER.sub(value, word)


def _expression(pattern: str) -> re.Pattern[str]:
    plain = _DEFAULT_HOST.sub("", pattern, count=1)
    return re.compile(".*".join(re.escape(part) for part in plain.split("*")))


def _spellings(name: str) -> Iterator[str]:
    """The forms of an image name that a pattern may match: without default registry, digest, or tag."""
    name = _DEFAULT_HOST.sub("", name, count=1)
    yield name
    name = name.partition("@")[0]
    yield name
    head, slash, last = name.rpartition("/")
    yield f"{head}{slash}{last.partition(':')[0]}"
