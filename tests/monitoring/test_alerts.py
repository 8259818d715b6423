"""Each alert fires for its condition and no other, as Prometheus evaluates it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from allotment.exporter.alerts import ALERTS
from allotment.model.serialization import to_yaml
from tests.monitoring.conftest import Promtool
from tests.monitoring.test_dashboards import ALERTS as SHIPPED

RULES = SHIPPED / "allotment.rules.yaml"


class Case(NamedTuple):
    """Series in promtool's notation (one value per minute), one set with which the alert fires and one without."""

    fires: Mapping[str, str]
    silent: Mapping[str, str]
    labels: Mapping[str, str] = {}


PENDING = 'allotment_oldest_pending_pod_timestamp_seconds{cause="%s"}'
FREE = 'allotment_class_devices{device_class="c",node="n",state="%s"}'
WAIT = 'allotment_claim_allocation_seconds_bucket{device_class="c",origin="%s",le="%s"}'
ATTEMPT = 'allotment_work_duration_seconds_bucket{work="schedule",result="bound",le="%s"}'
WORK = 'allotment_work_duration_seconds_count{work="bind",result="%s"}'
REQUESTS = 'allotment_client_requests_total{job="scheduler",method="get",code="%s"}'
CONTACT = "allotment_exporter_last_contact_timestamp_seconds"

CASES: Mapping[str, Case] = {
    "AllotmentPodsPending": Case(
        {PENDING % "devices-in-use": "0x60"},
        {PENDING % "none": "0x60", PENDING % "devices-in-use": "0+60x60"},
        {"cause": "devices-in-use"},
    ),
    "AllotmentNoFreeDevices": Case(
        {FREE % "free": "0x60", FREE % "in-use": "8x60"},
        {FREE % "free": "0x60", FREE % "shared": "1x60"},
        {"device_class": "c"},
    ),
    "AllotmentPoolNotUsable": Case(
        {'allotment_pools{node="n",driver="d",state="incomplete"}': "1x60"},
        {'allotment_pools{node="n",driver="d",state="usable"}': "1x60"},
        {"node": "n", "driver": "d", "state": "incomplete"},
    ),
    "AllotmentDeviceTainted": Case(
        {'allotment_tainted_devices{node="n",driver="d",effect="NoExecute"}': "2x60"},
        {'allotment_tainted_devices{node="n",driver="d",effect="None"}': "2x60"},
        {"node": "n", "driver": "d", "effect": "NoExecute"},
    ),
    "AllotmentDeviceAllocatedTwice": Case(
        {'allotment_devices_allocated_twice{driver="d"}': "1x60"},
        {'allotment_devices_allocated_twice{driver="d"}': "0x60"},
        {"driver": "d"},
    ),
    "AllotmentDevicesMissing": Case(
        {'allotment_devices_missing{driver="d"}': "1x60"},
        {'allotment_devices_missing{driver="d"}': "0x60"},
        {"driver": "d"},
    ),
    "AllotmentAllocationSlow": Case(
        {
            WAIT % ("template", "60"): "0x60",
            WAIT % ("template", "120"): "0+9x60",
            WAIT % ("template", "+Inf"): "0+9x60",
        },
        {WAIT % ("user", "60"): "0x60", WAIT % ("user", "120"): "0+9x60", WAIT % ("user", "+Inf"): "0+9x60"},
        {"device_class": "c"},
    ),
    "AllotmentExporterSilent": Case({CONTACT: "0x60"}, {CONTACT: "0+60x60"}),
    "AllotmentExporterMissing": Case({"up": "1x60"}, {"allotment_exporter_builds_total": "5x60"}),
    "AllotmentSeriesDropped": Case({'allotment_series_dropped{metric="m"}': "7x60"}, {"up": "1x60"}, {"metric": "m"}),
    "AllotmentNoLeader": Case(
        {'allotment_leader{lease="l",instance="a"}': "0x60", 'allotment_leader{lease="l",instance="b"}': "0x60"},
        {'allotment_leader{lease="l",instance="a"}': "0x60", 'allotment_leader{lease="l",instance="b"}': "1x60"},
        {"lease": "l"},
    ),
    "AllotmentSeveralLeaders": Case(
        {'allotment_leader{lease="l",instance="a"}': "1x60", 'allotment_leader{lease="l",instance="b"}': "1x60"},
        {'allotment_leader{lease="l",instance="a"}': "0x60", 'allotment_leader{lease="l",instance="b"}': "1x60"},
        {"lease": "l"},
    ),
    "AllotmentProgramRestarts": Case(
        {'allotment_program_restarts_total{program="p"}': "0+1x60"},
        {'allotment_program_restarts_total{program="p"}': "0x57 1x3"},
        {"program": "p"},
    ),
    "AllotmentWorkFails": Case(
        {WORK % "error": "0+1x60", WORK % "bound": "0+4x60"},
        {WORK % "error": "0+1x60", WORK % "bound": "0+99x60"},
        {"work": "bind"},
    ),
    "AllotmentSchedulerSlow": Case(
        {ATTEMPT % "1": "0+1x60", ATTEMPT % "2.5": "0+9x60", ATTEMPT % "+Inf": "0+9x60"},
        {ATTEMPT % "1": "0+9x60", ATTEMPT % "2.5": "0+9x60", ATTEMPT % "+Inf": "0+9x60"},
    ),
    "AllotmentRequestsFail": Case(
        {REQUESTS % "200": "0+9x60", REQUESTS % "503": "0+1x60"},
        {REQUESTS % "200": "0+9x60", REQUESTS % "404": "0+9x60"},
        {"job": "scheduler"},
    ),
}


def test_every_alert_has_a_case() -> None:
    assert {alert.name for alerts in ALERTS.values() for alert in alerts} == set(CASES)


def test_alerts_fire_only_for_their_condition(promtool: Promtool, tmp_path: Path) -> None:
    severities = {alert.name: alert.severity for alerts in ALERTS.values() for alert in alerts}
    tests = []
    for name, case in CASES.items():
        labels = {"alertname": name, "alertstate": "firing", "severity": severities[name], **case.labels}
        firing = "ALERTS{" + ",".join(f'{label}="{value}"' for label, value in labels.items()) + "}"
        for series, samples in ((case.fires, [{"labels": firing, "value": 1}]), (case.silent, [])):
            expression = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
            tests.append(
                {
                    "name": name,
                    "interval": "1m",
                    "input_series": [
                        {"series": series_name, "values": values} for series_name, values in series.items()
                    ],
                    "promql_expr_test": [{"expr": expression, "eval_time": "59m", "exp_samples": samples}],
                }
            )
    file = tmp_path / "cases.yaml"
    file.write_text(to_yaml([{"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}]))
    tried = promtool("test", "rules", str(file))
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_promtool_accepts_the_rules(promtool: Promtool) -> None:
    checked = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
