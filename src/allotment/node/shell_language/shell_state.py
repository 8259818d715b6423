"""The state of a shell: variables, positional parameters, functions and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from allotment.node.container_files import ContainerFiles
from allotment.node.shell_language.process import LONGEST_VALUE, ShellFault
from allotment.node.shell_language.syntax import Node, NotSimulated

#: The process id of the container's first process.
_SHELL_ID: Final = 1
_OPTION_LETTERS: Final = "aefnuvx"


class ShellState:
    """Variables, functions and options. ``last``: the last exit code; ``name``: ``$0``.

    ``bash``: whether the shell has the extensions of bash that mean something else in ``sh``.
    """

    def __init__(
        self, environment: Mapping[str, str], files: ContainerFiles, *, directory: str, name: str,
        arguments: Sequence[str], bash: bool,
    ) -> None:  # fmt: skip
        self.variables = dict(environment)
        self.exported = set(environment)
        self.read_only: set[str] = set()
        self.arguments = list(arguments)
        self.name = name
        self.directory = directory
        self.files = files
        self.bash = bash
        self.functions: dict[str, Node] = {}
        self.options: set[str] = set()
        self.traps: dict[str, str] = {}
        self.last = 0
        #: The process id of the last background command.
        self.last_background = ""
        #: The values that ``local`` hides, by function call.
        self.hidden: list[dict[str, str | None]] = []

    def inherit(self, other: ShellState) -> None:
        """Take over the state of the shell around a subshell. Traps are not inherited."""
        self.variables, self.exported = dict(other.variables), set(other.exported)
        self.read_only, self.functions = set(other.read_only), dict(other.functions)
        self.options, self.last, self.last_background = set(other.options), other.last, other.last_background
        self.hidden = [{} for _ in other.hidden]

    def special(self, name: str) -> str | None:
        """The value of a special parameter; None if it is not one."""
        if name.isdigit():
            number = int(name[:6])
            if number == 0:
                return self.name
            return self.arguments[number - 1] if number <= len(self.arguments) else None
        if name in ("@", "*"):
            return " ".join(self.arguments) if self.arguments else None
        values = {
            "?": str(self.last), "#": str(len(self.arguments)), "$": str(_SHELL_ID), "!": self.last_background,
            "-": "".join(sorted(option for option in self.options if len(option) == 1)),
        }  # fmt: skip
        return values.get(name)

    def assign(self, name: str, value: str) -> None:
        """Set a variable. Raises ShellFault for a read-only one."""
        if name in self.read_only:
            raise ShellFault(f"{name}: is read only")
        if len(value) > LONGEST_VALUE:
            raise ShellFault("cannot allocate memory")
        self.variables[name] = value
        if "a" in self.options:
            self.exported.add(name)

    def environment(self) -> dict[str, str]:
        """The variables that programs get."""
        return {name: value for name, value in self.variables.items() if name in self.exported}

    @contextmanager
    def assigned(self, given: Mapping[str, str]) -> Iterator[None]:
        """Variables that are set for one command."""
        before = {name: self.variables.get(name) for name in given}
        self.variables.update(given)
        try:
            yield
        finally:
            self._restore(before)

    @contextmanager
    def function_call(self, arguments: list[str]) -> Iterator[None]:
        """The positional parameters and local variables of a call of a function."""
        before, self.arguments = self.arguments, arguments
        self.hidden.append({})
        try:
            yield
        finally:
            self.arguments = before
            self._restore(self.hidden.pop())

    def _restore(self, values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = value

    def set_options(self, word: str) -> None:
        """Apply ``-eu`` or ``+x``. Raises NotSimulated."""
        for letter in word[1:]:
            if letter not in _OPTION_LETTERS:
                raise NotSimulated(f"set {word}")
            (self.options.add if word[0] == "-" else self.options.discard)(letter)
