"""``allot migrate``: what becomes of workloads that ask a device plugin for GPUs, told, shown or written."""

from __future__ import annotations

from argparse import Namespace

from allotment.cli.check.files import Files, passed_over, read_files
from allotment.cli.migrate.manifest_writer import write_folder, write_in_place
from allotment.cli.migrate.meaning import target_of
from allotment.cli.migrate.text_output import tell, tell_lines
from allotment.cli.output.console import open_screen
from allotment.cli.output.diffs import show_diff
from allotment.cli.output.errors import BadInput, Mistake
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.section import Section
from allotment.tools.migrate.sections import sections_of
from allotment.tools.migrate.simulation.comparison import compare
from allotment.tools.migrate.simulation.expected_slices import with_expected

EXIT_FINE, EXIT_NOT_FINE = 0, 1


def run(arguments: Namespace) -> int:
    """Migrate, and return 0 when every workload has its way and nothing stands in it, else 1."""
    screen = open_screen()
    if arguments.shares < 0 or arguments.shares == 1:
        raise Mistake(f"--shares: wanted a number of pods from 2 on, found {arguments.shares}")
    files = _read(arguments)
    target = with_expected(target_of(arguments))
    migration = migrate(files.documents, target, arguments.namespace or "default")
    trial = compare(migration)
    sections = sections_of(migration, trial)
    written: tuple[str, ...] = ()
    if arguments.output_dir is not None:
        written = write_folder(arguments.output_dir, migration, trial, files)
    elif arguments.in_place:
        written = write_in_place(migration, files)
    if arguments.output == "json":
        from allotment.cli.migrate.data import data

        screen.data(data(migration, sections, written, (*files.templates, *files.patches)), "json")
    elif arguments.diff:
        show_diff(screen, migration.sources, migration.new_texts)
    else:
        shown = arguments.output_dir is None and not arguments.in_place
        tell(screen, migration, sections, written, shown)
        for told in passed_over(files.templates, files.patches, "migrate"):
            screen.line()
            tell_lines(screen, told)
    return EXIT_FINE if is_fine(migration, sections) else EXIT_NOT_FINE


def is_fine(migration: Migration, sections: tuple[Section, ...]) -> bool:
    """Whether every workload has its way, and nothing that was looked at afterwards stands in it."""
    return migration.decided and all(section.fine for section in sections)


def _read(arguments: Namespace) -> Files:
    files = read_files(arguments.paths, lambda file: False)
    if files.problems:
        raise BadInput(files.problems, files.sources.get)
    if files.stdin and arguments.in_place:
        raise Mistake("--in-place: standard input is no file", "write to a folder with -d DIR")
    return files
