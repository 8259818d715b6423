"""``allot lab``: checks, repairs, backs up and restores the data of a lab that is not running."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from allotment.cli.output.console import Screen, from_home, open_screen
from allotment.cli.up import mistakes
from allotment.errors import InputError
from allotment.lab.backup import Contents, create, restore
from allotment.lab.data_check import DataReport, check_data, repair
from allotment.lab.state import DataFolder, Register, checked_name, default_data
from allotment.phrases import counted


def run_check(arguments: Namespace) -> int:
    """Print the problems of a data folder; exit code 1 if there are any that were not repaired."""
    screen = open_screen()
    with mistakes(arguments.name):
        now = datetime.now(UTC)
        report = check_data(_folder(arguments), now)
        for problem in report.problems:
            screen.line(f"problem: {problem}")
        damaged = report.database is not None and bool(report.database.problems)
        if arguments.repair and damaged:
            return _repair(screen, report, now)
        _print_state(screen, report)
        if damaged:
            screen.line("next: allot lab check --repair, with the same --name or --data-dir")
    return 1 if report.problems else 0


def run_backup(arguments: Namespace) -> int:
    """Write a backup."""
    with mistakes(arguments.name):
        found = create(_folder(arguments), Path(arguments.file))
    open_screen().line(f"Saved {_objects(found)} to {arguments.file}. It contains Secrets and private keys.")
    return 0


def run_restore(arguments: Namespace) -> int:
    """Restore a backup to a new data folder."""
    with mistakes(arguments.name):
        folder = _folder(arguments)
        found = restore(Path(arguments.file), folder)
    open_screen().line(f"Restored {_objects(found)} to {from_home(folder.path)}.")
    return 0


def _folder(arguments: Namespace) -> DataFolder:
    """The data folder of a lab that is not running."""
    if arguments.data_dir:
        return DataFolder(Path(arguments.data_dir).absolute())
    name = checked_name(arguments.name)
    folder, register = default_data(name), Register()
    status = register.status(name) if register.runs(name) else None
    if status is not None and status.data == str(folder.path):  # otherwise it is in memory, or elsewhere
        raise InputError(f"lab {name!r} is running", "stop it with allot down")
    return folder


def _repair(screen: Screen, report: DataReport, now: datetime) -> int:
    repaired = repair(report, now)
    lost = f"; {counted(repaired.lost_revisions, 'later write')} lost" if repaired.lost_revisions else ""
    screen.line(f"Repaired: {counted(repaired.objects, 'object')} as of revision {repaired.revision}{lost}.")
    screen.line(f"The damaged database is kept in {from_home(repaired.kept)}.")
    left = check_data(report.folder, now).problems
    for problem in left:
        screen.line(f"problem: {problem}")
    return 1 if left else 0


def _print_state(screen: Screen, report: DataReport) -> None:
    found = report.database
    if found is not None:
        state = "No problem found" if not report.problems else "Readable"
        contents = _objects(Contents(len(found.objects), found.revision))
        screen.line(f"{state} in {from_home(report.folder.path)}: {contents}.")


def _objects(found: Contents) -> str:
    return f"{counted(found.objects, 'object')} at revision {found.revision}"
