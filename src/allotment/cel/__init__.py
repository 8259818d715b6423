"""CEL for DRA device selectors: parser, type checker, cost estimate and evaluation."""

from allotment.cel.conjuncts import Conjunct as Conjunct
from allotment.cel.conjuncts import ValueComparison as ValueComparison
from allotment.cel.derived_attribute import DerivedAttribute as DerivedAttribute
from allotment.cel.derived_attribute import compile_derived_attribute as compile_derived_attribute
from allotment.cel.device import DeviceInput as DeviceInput
from allotment.cel.device import content_key as content_key
from allotment.cel.device_references import DevicePath as DevicePath
from allotment.cel.device_references import DeviceReference as DeviceReference
from allotment.cel.errors import CompileError as CompileError
from allotment.cel.evaluation.values import EvaluationError as EvaluationError
from allotment.cel.selector import COST_LIMIT as COST_LIMIT
from allotment.cel.selector import Selector as Selector
from allotment.cel.selector import compile_selector as compile_selector
