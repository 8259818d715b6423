"""Every check finds its defect, says what to do, and is silent where all is well or nobody can know."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from allotment.tools.doctor.checks import CHECKS
from allotment.tools.doctor.examining import confirmed, examine, needs_second_look, skipped
from allotment.tools.doctor.found import Found
from tests.unit.tools.doctor.clinic import Cluster
from tests.unit.tools.doctor.patients import PATIENTS, Patient

#: What a command of ours or of kubectl can be.
COMMAND = re.compile(r"\$ (kubectl (api-resources|get|describe|delete|edit|logs|label) |allot (explain|free|rbac) )")


def test_a_cluster_in_which_all_is_well_has_no_findings() -> None:
    assert Cluster().findings() == ()


def test_every_check_has_a_patient() -> None:
    assert [patient.code for patient in PATIENTS] == [check.code for check in CHECKS]


@pytest.mark.parametrize("patient", PATIENTS, ids=[patient.code for patient in PATIENTS])
def test_a_check_tells_its_defect(patient: Patient) -> None:
    cluster = Cluster()
    patient.break_(cluster)
    found = cluster.told(patient.code)
    assert found.subject == patient.subject
    assert patient.evidence in found.evidence
    assert patient.remedy in found.remedy


@pytest.mark.parametrize("patient", PATIENTS, ids=[patient.code for patient in PATIENTS])
def test_what_a_finding_asks_for_can_be_typed(patient: Patient) -> None:
    cluster = Cluster()
    patient.break_(cluster)
    for finding in cluster.findings():
        commands = [line for line in finding.remedy.splitlines() if line.startswith("$")]
        assert all(map(COMMAND.match, commands)), commands
        assert finding.severity == "note" or finding.remedy
        assert "  " not in finding.evidence
        assert "\n" not in finding.evidence


@pytest.mark.parametrize("check", CHECKS, ids=[check.code for check in CHECKS])
def test_a_check_is_silent_about_what_could_not_be_read(check: object) -> None:
    (one,) = (c for c in CHECKS if c is check)
    patient = next(p for p in PATIENTS if p.code == one.code)
    for kind in one.needs:
        cluster = Cluster()
        patient.break_(cluster)
        cluster.unread = {kind: "may not be read"}
        found = cluster.found()
        assert one.code not in {finding.code for finding in examine(found)}
        assert one in skipped(found)


@pytest.mark.parametrize("check", CHECKS, ids=[check.code for check in CHECKS])
def test_an_empty_cluster_has_nothing_wrong(check: object) -> None:
    (one,) = (c for c in CHECKS if c is check)
    found = examine(Found(Cluster().found().features), [one])
    assert found == ()


def test_codes_are_unique_and_in_order() -> None:
    codes = [check.code for check in CHECKS]
    assert codes == sorted(codes)
    assert max(Counter(codes).values()) == 1


def test_summaries_fit_a_line() -> None:
    for check in CHECKS:
        assert len(check.summary) <= 80
        assert not check.summary.endswith(".")
        assert check.why.endswith(".")
        assert "  " not in check.why


def test_the_worst_comes_first() -> None:
    cluster = Cluster()
    for patient in PATIENTS:
        if patient.code in ("D604", "D305", "D601"):
            patient.break_(cluster)
    assert [finding.severity for finding in cluster.findings()] == ["error", "warning", "note"]


def test_what_lists_of_two_moments_show_is_looked_at_twice() -> None:
    busy, idle, lasting = Cluster(), Cluster(), Cluster()
    busy.claim("passing", "node-2/gpu-0", pods=["ghost"])
    lasting.claim("stale", "node-2/gpu-0", pods=["ghost"])
    first = busy.findings()
    assert [finding.code for finding in first] == ["D505"]
    assert needs_second_look(first)
    assert confirmed(first, idle.findings()) == ()
    assert confirmed(first, lasting.findings()) == (), "another claim, of which nobody knows whether it lasts"
    assert confirmed(first, first) == first
    assert not needs_second_look(idle.findings())


def test_what_lasts_by_itself_is_looked_at_once() -> None:
    cluster = Cluster()
    next(patient for patient in PATIENTS if patient.code == "D501").break_(cluster)
    found = cluster.findings()
    assert not needs_second_look(found)
    assert confirmed((), found) == found
