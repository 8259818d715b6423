"""The interpreter of shell scripts.

No process of the machine is started: a command is a function of the script, a built-in of the shell, or one of
:mod:`allotment.node.programs`. Background commands run as tasks, which end with the shell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from allotment.node.container_files import ContainerFiles
from allotment.node.shell_language.arithmetic import ArithmeticFault, evaluate
from allotment.node.shell_language.conditions import BadCondition, ConditionalCommand
from allotment.node.shell_language.expansion import Expansion
from allotment.node.shell_language.parser import parse
from allotment.node.shell_language.patterns import expression
from allotment.node.shell_language.process import (
    BROKEN_PIPE,
    LONGEST_VALUE,
    MISUSED,
    MOST_DEPTH,
    NOT_FOUND,
    Execute,
    Exit,
    LoopControl,
    NestingTooDeep,
    Process,
    Return,
    ShellFault,
)
from allotment.node.shell_language.redirections import redirected
from allotment.node.shell_language.shell_state import ShellState
from allotment.node.shell_language.streams import Input, ShellPipe, Streams
from allotment.node.shell_language.syntax import (
    AndOr,
    ArithmeticCommand,
    CaseStatement,
    CommandList,
    Conditional,
    ForLoop,
    Function,
    IfStatement,
    Node,
    NotSimulated,
    Pipeline,
    Redirected,
    ShellSyntaxError,
    Simple,
    Subshell,
    WhileLoop,
    Word,
)

#: A command of the shell itself: words, streams -> exit code.
BuiltIn = Callable[["Shell", list[str], Streams], Awaitable[int]]
#: The process id of the first background command.
_FIRST_ID: Final = 7


class Shell(ShellState):
    """A shell that runs scripts. ``depth``: how many shells it is nested in. Raises NestingTooDeep."""

    def __init__(
        self, environment: Mapping[str, str], execute: Execute, built_ins: Mapping[str, BuiltIn],
        files: ContainerFiles, *, directory: str = "/", name: str = "sh", arguments: Sequence[str] = (),
        depth: int = 0, bash: bool = False,
    ) -> None:  # fmt: skip
        if depth > MOST_DEPTH:
            raise NestingTooDeep
        super().__init__(environment, files, directory=directory, name=name, arguments=arguments, bash=bash)
        self.background: dict[int, asyncio.Task[int]] = {}
        self.execute = execute
        self.built_ins = built_ins
        self.depth = depth
        self._substituted = 0
        #: Above zero: the exit code is tested, so that ``set -e`` does not apply.
        self._tested = 0
        self._expansion = Expansion(self, self._output, braces=bash)
        self._streams: Streams | None = None

    async def run(self, text: str, streams: Streams) -> int:
        """Run a script to its end, with its exit trap; returns its exit code."""
        try:
            code = await self.statement(text, streams)
        except Exit as leaving:
            code = leaving.code
        try:
            return await self._exit_trap(code, streams)
        finally:
            self.close()

    async def statement(self, text: str, streams: Streams) -> int:
        """Run commands in this shell; returns the last exit code. Raises Exit."""
        try:
            return await self.node(parse(text), streams)
        except ShellSyntaxError as error:
            await streams.err(f"sh: {error}\n".encode(errors="replace"))
            self.last = MISUSED
        except NotSimulated as error:
            await streams.err(f"not simulated: {error}\n".encode(errors="replace"))
            self.last = NOT_FOUND
        except NestingTooDeep:
            raise
        except ShellFault as error:
            await streams.err(f"sh: {error}\n".encode(errors="replace"))
            raise Exit(MISUSED) from None
        except LoopControl:
            self.last = 0
        except Return as leaving:
            self.last = leaving.code
        return self.last

    async def _exit_trap(self, code: int, streams: Streams) -> int:
        action = self.traps.pop("EXIT", "")
        if not action:
            return code
        self.last = code
        try:
            await self.statement(action, streams)
        except Exit as leaving:
            return leaving.code
        return code

    def close(self) -> None:
        """End the background commands."""
        for task in self.background.values():
            task.cancel()

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def node(self, node: Node, streams: Streams) -> int:
        """Run a node of a script; returns its exit code."""
        # A loop of instant commands must yield to the other tasks.
        await asyncio.sleep(0)
        match node:
            case Simple():
                await self._guarded(self._simple(node, streams), streams)
            case CommandList():
                for part, background in node.parts:
                    if background:
                        self._start(part, streams)
                    else:
                        await self.node(part, streams)
            case AndOr():
                await self._and_or(node, streams)
            case Pipeline():
                await self._pipeline(node, streams)
            case Subshell():
                self.last = await self._subshell(node.body, streams)
                self._exit_on_error()
            case WhileLoop():
                await self._while(node, streams)
            case ForLoop():
                await self._for(node, streams)
            case IfStatement():
                await self._if(node, streams)
            case CaseStatement():
                await self._case(node, streams)
            case Function():
                self.functions[node.name] = node.body
                self.last = 0
            case Conditional() | ArithmeticCommand():
                await self._guarded(self._condition(node), streams)
            case Redirected():
                await self._redirected(node, streams)
        return self.last

    async def _guarded(self, command: Awaitable[int], streams: Streams) -> None:
        """Run a command; what it cannot do is an exit code and a message, not the end of the shell."""
        self.last = await self._reported(command, streams)
        self._exit_on_error()

    async def _reported(self, command: Awaitable[int], streams: Streams) -> int:
        try:
            return await command
        except NotSimulated as error:
            await streams.err(f"not simulated: {error}\n".encode(errors="replace"))
            return NOT_FOUND
        except (BadCondition, ArithmeticFault) as error:
            await streams.err(f"sh: {error}\n".encode(errors="replace"))
            return MISUSED
        except OSError as error:
            await streams.err(f"sh: {error.filename}: {error.strerror}\n".encode(errors="replace"))
            return 1

    def _exit_on_error(self) -> None:
        if self.last and "e" in self.options and not self._tested:
            raise Exit(self.last)

    @contextmanager
    def _testing(self) -> Iterator[None]:
        self._tested += 1
        try:
            yield
        finally:
            self._tested -= 1

    async def _and_or(self, node: AndOr, streams: Streams) -> None:
        for place, (operator, part) in enumerate(node.parts):
            if (operator == "&&" and self.last != 0) or (operator == "||" and self.last == 0):
                continue
            if place < len(node.parts) - 1:
                with self._testing():
                    await self.node(part, streams)
            else:
                await self.node(part, streams)

    async def _condition(self, node: Conditional | ArithmeticCommand) -> int:
        if isinstance(node, ArithmeticCommand):
            return int(evaluate(await self._expansion.text(node.expression), self.variables) == 0)
        command = ConditionalCommand(node, self._expansion, self.variables, self.files, self.directory)
        return int(not await command.value())

    async def _redirected(self, node: Redirected, streams: Streams) -> None:
        try:
            given = await redirected(node.redirections, streams, self._expansion, self.files, self.directory)
        except OSError as error:
            await streams.err(f"sh: {error.filename}: {error.strerror}\n".encode(errors="replace"))
            self.last = 1
            self._exit_on_error()
            return
        await self.node(node.body, given)

    async def _while(self, node: WhileLoop, streams: Streams) -> None:
        code = 0
        while True:
            with self._testing():
                met = (await self.node(node.condition, streams) == 0) == node.wanted
            if not met or not await self._iterate(node.body, streams):
                break
            code = self.last
        self.last = code if not met else self.last

    async def _for(self, node: ForLoop, streams: Streams) -> None:
        values = list(self.arguments) if node.words is None else await self._expansion.fields(node.words)
        self.last = 0
        for value in values:
            self.assign(node.name, value)
            if not await self._iterate(node.body, streams):
                break

    async def _iterate(self, body: Node, streams: Streams) -> bool:
        """Run one iteration of a loop; False if the loop ends."""
        try:
            await self.node(body, streams)
        except LoopControl as leaving:
            self.last = 0
            if leaving.levels > 1:
                raise LoopControl(again=leaving.again, levels=leaving.levels - 1) from None
            return leaving.again
        return True

    async def _if(self, node: IfStatement, streams: Streams) -> None:
        for condition, body in node.branches:
            with self._testing():
                met = await self.node(condition, streams) == 0
            if met:
                await self.node(body, streams)
                return
        self.last = 0
        if node.otherwise is not None:
            await self.node(node.otherwise, streams)

    async def _case(self, node: CaseStatement, streams: Streams) -> None:
        text = await self._expansion.text(node.word)
        self.last, falls = 0, False
        for patterns, body, through in node.branches:
            if falls or await self._matches(text, patterns):
                await self.node(body, streams)
                if not through:
                    return
                falls = True

    async def _matches(self, text: str, patterns: Sequence[Word]) -> bool:
        for pattern in patterns:
            if expression(await self._expansion.pattern(pattern)).fullmatch(text):
                return True
        return False

    # --- commands -------------------------------------------------------------------------------------------------

    async def _simple(self, node: Simple, streams: Streams) -> int:
        self._substituted, self._streams = 0, streams
        words = await self._expansion.fields(node.words)
        given: dict[str, str] = {}
        for name, word, added in node.assignments:
            value = await self._expansion.text(word)
            value = (given.get(name, self.variables.get(name, "")) if added else "") + value
            if words:
                given[name] = value
            else:
                self.assign(name, value)
        code = self._substituted
        if node.redirections:
            streams = await redirected(node.redirections, streams, self._expansion, self.files, self.directory)
        if "x" in self.options:
            traced = [*(f"{name}={value}" for name, value in given.items()), *words]
            await streams.err(f"+ {' '.join(traced)}\n".encode(errors="replace"))
        if not words:
            return code
        return await self._reported(self.call(words, streams, given), streams)

    async def call(
        self, words: list[str], streams: Streams, given: Mapping[str, str] | None = None, *, functions: bool = True
    ) -> int:
        """Run a function, built-in or program with the variables in ``given``; returns its exit code."""
        name = words[0]
        if functions and name in self.functions:
            with self.assigned(given or {}):
                return await self._function(self.functions[name], words[1:], streams)
        if name in self.built_ins:
            with self.assigned(given or {}):
                return await self.built_ins[name](self, words, streams)
        environment = {**self.environment(), **(given or {})}
        return await self.execute(Process(words, environment, streams, self.files, self.directory, self.depth))

    async def _function(self, body: Node, arguments: list[str], streams: Streams) -> int:
        if len(self.hidden) + self.depth > MOST_DEPTH:
            raise NestingTooDeep
        with self.function_call(arguments):
            try:
                return await self.node(body, streams)
            except Return as leaving:
                return leaving.code

    # --- subshells ------------------------------------------------------------------------------------------------

    def _copy(self) -> Shell:
        shell = Shell(
            {}, self.execute, self.built_ins, self.files, directory=self.directory, name=self.name,
            arguments=self.arguments, depth=self.depth + 1, bash=self.bash,
        )  # fmt: skip
        shell.inherit(self)
        shell._tested = self._tested
        return shell

    async def _subshell(self, part: Node, streams: Streams) -> int:
        shell = self._copy()
        try:
            code = await shell.node(part, streams)
        except (Exit, Return) as leaving:
            code = leaving.code
        except LoopControl:
            code = 0
        except NestingTooDeep:
            raise
        except ShellFault as error:
            await streams.err(f"sh: {error}\n".encode(errors="replace"))
            code = MISUSED
        try:
            return await shell._exit_trap(code, streams)
        finally:
            shell.close()

    def _start(self, part: Node, streams: Streams) -> None:
        """Start a background command."""
        for done in [number for number, task in self.background.items() if task.done()][:-_MOST_ENDED]:
            del self.background[done]
        running = self.files.background
        if len(self.background) > _MOST_BACKGROUND or len(running) > _MOST_BACKGROUND:
            raise ShellFault("cannot fork: resource temporarily unavailable")
        number = max((*self.background, _FIRST_ID - 1, int(self.last_background or 0))) + 1
        task = asyncio.create_task(self._subshell(part, streams._replace(input=Input())))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the script may never wait for it
        running.add(task)
        task.add_done_callback(running.discard)
        self.background[number] = task
        self.last_background, self.last = str(number), 0

    async def _output(self, body: Node) -> str:
        """The output of a command substitution."""
        written = bytearray()

        async def keep(data: bytes) -> None:
            written.extend(data)
            if len(written) > LONGEST_VALUE:
                raise ShellFault("cannot allocate memory")

        streams = self._streams or Streams(Input(), keep, keep)
        self._substituted = await self._subshell(body, streams._replace(out=keep))
        self.last = self._substituted
        return written.decode(errors="replace").replace("\0", "").rstrip("\n")

    async def _pipeline(self, node: Pipeline, streams: Streams) -> None:
        if node.negated:
            with self._testing():
                await self._parts(node.parts, streams)
            self.last = int(self.last == 0)
            return
        await self._parts(node.parts, streams)
        self._exit_on_error()

    async def _parts(self, parts: Sequence[Node], streams: Streams) -> None:
        """Run the parts of a pipeline concurrently and wait for all; the exit code is the last one's."""
        if len(parts) == 1:
            await self.node(parts[0], streams)
            return
        flows = [ShellPipe() for _ in parts[1:]]
        tasks = [
            asyncio.create_task(self._part(part, source, into, streams))
            for part, source, into in zip(parts, (None, *flows), (*flows, None), strict=True)
        ]
        try:
            codes = await asyncio.gather(*tasks)
        finally:
            for flow in flows:
                flow.close()  # release blocked writers
            for task in tasks:
                task.cancel()
        failed = [code for code in codes if code]
        self.last = failed[-1] if failed and "pipefail" in self.options else codes[-1]

    async def _part(self, part: Node, source: ShellPipe | None, into: ShellPipe | None, streams: Streams) -> int:
        async def out(data: bytes) -> None:
            if into is not None and not await into.write(data):
                raise Exit(BROKEN_PIPE)

        given = streams if source is None else streams._replace(input=Input(source.read))
        given = given if into is None else given._replace(out=out)
        try:
            return await self._subshell(part, given)
        finally:
            if source is not None:
                source.close()
            if into is not None:
                await into.end()


#: How many background commands a shell runs, and how many that have ended it keeps for ``wait``.
_MOST_BACKGROUND: Final = 200
_MOST_ENDED: Final = 50
