"""Completion of packaged names: rules, checks, hardware, instance types, drivers, components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.cli.completion.command_line import Candidate, Line

_FORMS: Final = ("json", "yaml", "wide", "name", "jsonpath=")
_CONDITIONS: Final = ("condition=", "jsonpath=", "create", "delete")


def rules(line: Line) -> Iterator[Candidate]:
    """Yield the rules of ``allot check`` by code, and their families."""
    from allotment.tools.check.catalog import FAMILIES, all_rules
    from allotment.tools.check.reference import headline

    for letter, family in FAMILIES.items():
        yield Candidate(letter, family[1])
    for rule in all_rules():
        yield Candidate(rule.code, headline(rule))


def checks(line: Line) -> Iterator[Candidate]:
    """Yield the checks of ``allot doctor``."""
    from allotment.tools.doctor.checks import CHECKS

    return (Candidate(check.code, check.summary) for check in CHECKS)


def hardware(line: Line) -> Iterator[Candidate]:
    """Yield servers and accelerators."""
    from allotment.fleet import accelerators, servers
    from allotment.fleet import hardware as machine

    for name in servers():
        yield Candidate(name, machine(name).title)
    for record in accelerators().values():
        yield Candidate(record.aliases[0], record.product)


def mig_profiles(line: Line) -> Iterator[Candidate]:
    """Yield the MIG profiles of known GPUs."""
    from allotment.vocabulary.records import VALUES

    return map(Candidate, VALUES["mig profile"]("nvidia"))


def device_classes(line: Line) -> Iterator[Candidate]:
    """Yield the DeviceClasses that drivers' charts install."""
    from allotment.vocabulary import installed_classes

    return (Candidate(name, term.meaning) for name, (_, term) in installed_classes().items())


def instance_types(line: Line) -> Iterator[Candidate]:
    """Yield the types of the packaged catalog."""
    from allotment.fleet.catalog import catalog

    for instance_type in catalog():
        gpus = f"{instance_type.gpus} × {instance_type.gpu_model}" if instance_type.gpus else ""
        yield Candidate(instance_type.key, gpus)


def providers(line: Line) -> Iterator[Candidate]:
    """Yield the providers of the packaged catalog."""
    from allotment.fleet.catalog import catalog

    return (Candidate(name) for name in dict.fromkeys(instance_type.provider for instance_type in catalog()))


def parts(line: Line) -> Iterator[Candidate]:
    """Yield the components that have permissions."""
    from allotment.permissions.components import COMPONENTS

    return (Candidate(name, part.summary) for name, part in COMPONENTS.items())


def examples(line: Line) -> Iterator[Candidate]:
    """Yield the packaged examples."""
    from allotment.reference.packaged_examples import packaged_examples as known

    for example in known():
        yield Candidate(example.name, example.title)
    if line.command == "demo":
        yield Candidate("sharing", "many workloads share one GPU")


def drivers(line: Line) -> Iterator[Candidate]:
    """Yield the known drivers."""
    from allotment.vocabulary import drivers as known
    from allotment.vocabulary import vocabulary

    for name in known():
        words = vocabulary(name)
        yield Candidate(name, words.title if words else "")


def drivers_and_vendors(line: Line) -> Iterator[Candidate]:
    """Yield the known drivers and their vendors."""
    from allotment.vocabulary import vendors

    yield from (Candidate(vendor, ", ".join(names)) for vendor, names in vendors().items())
    yield from drivers(line)


def driver_releases(line: Line) -> Iterator[Candidate]:
    """Yield driver releases, as ``gpu.nvidia.com=25.8``."""
    from allotment.vocabulary import drivers as known
    from allotment.vocabulary import vocabulary

    for name in known():
        words = vocabulary(name)
        yield from (Candidate(f"{name}={release}") for release in (words.releases if words else ()))


def kinds_of_schemas(line: Line) -> Iterator[Candidate]:
    """Yield the kinds that ``allot schema`` supports."""
    from allotment.tools.schema import DEFAULT_KINDS

    return (Candidate(kind) for kind in (*DEFAULT_KINDS, "Pod"))


def programs(line: Line) -> Iterator[Candidate]:
    """Yield the components of a lab."""
    from allotment.lab.programs import NAMES

    return map(Candidate, NAMES)


def policies(line: Line) -> Iterator[Candidate]:
    """Yield the policies of a replay."""
    from allotment.tools.replay.policies import POLICIES

    return (Candidate(policy.name, policy.summary) for policy in POLICIES)


def traces(line: Line) -> Iterable[Candidate]:
    """Yield the packaged traces."""
    return (Candidate("sample", "a small packaged trace"),)


def releases(line: Line) -> Iterator[Candidate]:
    """Yield the supported Kubernetes releases."""
    from allotment.model.releases import RELEASES

    return map(Candidate, RELEASES)


def gates(line: Line) -> Iterator[Candidate]:
    """Yield feature gates, on and off."""
    from allotment.model.features import GATES

    return (Candidate(f"{name}={value}") for name in GATES for value in ("true", "false"))


def api_versions(line: Line) -> Iterator[Candidate]:
    """Yield the values of ``--runtime-config`` that serve more API versions."""
    from allotment.model.releases import RELEASES, release_table

    for word in ("all", "beta", "alpha"):
        yield Candidate(f"api/{word}=true")
    for group, versions in release_table(RELEASES[-1]).groups.items():
        for version, served in versions.items():
            if not served.default:
                yield Candidate(f"{group}/{version}=true")


def forms_of_objects(line: Line) -> Iterator[Candidate]:
    """Yield the output formats of ``get``."""
    return map(Candidate, _FORMS)


def conditions(line: Line) -> Iterator[Candidate]:
    """Yield the conditions of ``wait``."""
    return map(Candidate, _CONDITIONS)
