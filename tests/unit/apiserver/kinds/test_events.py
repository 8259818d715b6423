from tests.unit.apiserver.shelf import KINDS, created, manifest, write


def test_events_are_in_the_namespace_of_their_object() -> None:
    event = manifest(involvedObject={"namespace": "other", "kind": "Pod", "name": "p"})
    assert created("events", event, write())[1] == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]


def test_events_are_converted_between_both_groups() -> None:
    kind = KINDS["events.events.k8s.io"]
    assert kind.to_version is not None
    assert kind.from_version is not None
    stored = {"apiVersion": "v1", "kind": "Event", "message": "m", "involvedObject": {"kind": "Pod"}, "count": 2}
    new = kind.to_version(stored, "v1")
    assert (new["note"], new["regarding"], new["deprecatedCount"]) == ("m", {"kind": "Pod"}, 2)
    assert kind.from_version(new, "v1") == stored


def test_empty_reporting_fields_are_omitted_in_events_v1() -> None:
    kind = KINDS["events.events.k8s.io"]
    assert kind.to_version is not None
    stored = {"apiVersion": "v1", "kind": "Event", "reportingComponent": "", "reportingInstance": "", "reason": "R"}
    assert kind.to_version(stored, "v1") == {"apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": "R"}
