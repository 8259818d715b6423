"""The devices that DeviceClasses select, by node, or why they select none.

A class requests no devices, so there is nothing to fit; its author needs to know what it selects.
"""

from __future__ import annotations

from allotment.api.cluster import Cluster
from allotment.api.load import Source
from allotment.api.next_step import origin_of
from allotment.api.objects.inputs import ClusterState, Inputs
from allotment.api.question import Question
from allotment.cluster.inspection.snapshot import DEVICES
from allotment.engine.refusal import Diagnosis
from allotment.errors import InputError
from allotment.explanation import explain
from allotment.explanation.class_report import ClassAnswer, ClassExplanation
from allotment.explanation.matches import matches
from allotment.explanation.next_step import list_devices
from allotment.explanation.subjects import user_of_class
from allotment.model.core import Node
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceSlice


def explain_classes(objects: Source, cluster: Cluster | None = None) -> ClassExplanation:
    """Return the devices that each DeviceClass of the objects selects, by node, or why it selects none.

    Raises InputError if there is no class, or no device, InvalidManifests for objects, StatusError and Unreachable for
    a cluster.
    """
    return class_answers(Question.of(objects, cluster, None).read(DEVICES))


def only_classes(inputs: Inputs) -> tuple[DeviceClass, ...]:
    """Return the classes of the input if it has no pods or claims, else none."""
    if any(not isinstance(value, DeviceClass | ResourceSlice | Node | DeviceTaintRule) for value in inputs.queried):
        return ()
    return classes_of(inputs)


def classes_of(inputs: Inputs) -> tuple[DeviceClass, ...]:
    """Return the classes of the manifests."""
    return tuple(value for value in inputs.queried if isinstance(value, DeviceClass))


def class_answers(question: Question) -> ClassExplanation:
    """Return the answers for the classes of a question that has been read."""
    inputs, classes = question.inputs, classes_of(question.inputs)
    if not classes:
        raise InputError("the input contains no DeviceClass")
    state = ClusterState.of(inputs)
    if not state.slices:
        name = classes[0].metadata.name
        raise InputError(
            f"the input contains no ResourceSlices: cannot evaluate DeviceClass {name}",
            "specify a cluster with devices",
        )
    inventory = state.inventory()
    answers = []
    for device_class in classes:
        found = matches(device_class, inventory, inputs.features)
        reasons = None if found else _why(device_class, inputs)
        answers.append(ClassAnswer(name=found.name, nodes=found.nodes, reasons=reasons))
    step = list_devices(origin_of(question)) if question.is_repeatable and not all(answers) else ""
    return ClassExplanation(classes=tuple(answers), next=step)


def _why(device_class: DeviceClass, inputs: Inputs) -> Diagnosis:
    """Return why a claim for one device of the class is rejected."""
    name = device_class.metadata.name
    probe = user_of_class(device_class)
    state = [*inputs.of(Node), *inputs.of(ResourceSlice)]
    others = [candidate for candidate in inputs.of(DeviceClass) if candidate.metadata.name != name]
    (answer,) = explain([*state, *others, device_class, probe], inputs.features).answers
    assert answer.reasons is not None  # a class without selectors
    return answer.reasons
