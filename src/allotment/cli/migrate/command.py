"""``allot migrate``: decides how to migrate workloads from device plugins, and prints or writes manifests."""

from __future__ import annotations

from argparse import Namespace

from allotment.api.migrate import migrate, require_modeled
from allotment.cli.inputs.clusters import cluster_errors_of, sources
from allotment.cli.inputs.skipped_files import passed_over
from allotment.cli.inputs.target_cluster import target_cluster
from allotment.cli.migrate.text_output import print_lines, print_migration
from allotment.cli.output.console import open_screen
from allotment.cli.output.diffs import show_diff

EXIT_FINE, EXIT_NOT_FINE = 0, 1


def run(arguments: Namespace) -> int:
    """Migrate; return 0 if every workload can be migrated without problems, else 1."""
    screen = open_screen()
    if arguments.fleet or arguments.cluster or arguments.context or arguments.kubeconfig:
        require_modeled(arguments.kube_version)
    cluster = target_cluster(arguments)
    with cluster_errors_of(cluster):
        report = migrate(
            *sources(arguments, arguments.paths),
            cluster=cluster,
            strategy=arguments.strategy,
            shares=arguments.shares,
            match_attribute=arguments.match_attribute or "",
            namespace=arguments.namespace or "",
            output_dir=arguments.output_dir,
            in_place=arguments.in_place,
        )
    if arguments.output == "json":
        screen.data(report.to_dict(), "json")
    elif arguments.diff:
        show_diff(screen, report.migration.sources, report.texts)
    else:
        print_migration(screen, report, shown=arguments.output_dir is None and not arguments.in_place)
        for note in passed_over(report.templates, report.patches, "migrate"):
            screen.line()
            print_lines(screen, note)
    return EXIT_FINE if report.fine else EXIT_NOT_FINE
