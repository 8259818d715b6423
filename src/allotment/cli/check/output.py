"""Prints the report of a check in the requested format."""

from __future__ import annotations

from typing import Final

from allotment.cli.check.text_output import print_concise, print_report
from allotment.cli.output.console import Screen, open_screen
from allotment.cli.output.errors import described_problem
from allotment.errors import InputError
from allotment.tools.check.report import CheckReport

EXIT_FINE: Final = 0
EXIT_FINDINGS: Final = 1


def write(screen: Screen, report: CheckReport, output: str | None) -> None:
    """Print the report in the requested format."""
    if output == "json":
        screen.data(report.to_dict(), "json")
    elif output == "sarif":
        screen.data(report.to_sarif(), "json")
    elif output == "github":
        from allotment.cli.check.github import commands

        for command in commands(report.findings):
            screen.line(command)
    elif output == "concise":
        print_concise(screen, report)
    else:
        print_report(screen, report)


def write_failure(error: InputError) -> None:
    """Print the SARIF log of a check that an error stopped. A program that reads it expects one in any case."""
    from allotment.tools.check.sarif import failure_log

    open_screen().data(failure_log(error, described_problem(error)), "json")
