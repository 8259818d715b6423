"""The CEL environment of DRA device selectors: parse, check, cost, evaluate."""

from allotment.cel.conjuncts import Comparison as Comparison
from allotment.cel.conjuncts import Conjunct as Conjunct
from allotment.cel.device import DeviceInput as DeviceInput
from allotment.cel.device import content_key as content_key
from allotment.cel.device_references import Read as Read
from allotment.cel.device_references import Reference as Reference
from allotment.cel.errors import CompileError as CompileError
from allotment.cel.evaluation.values import EvaluationError as EvaluationError
from allotment.cel.selector import COST_LIMIT as COST_LIMIT
from allotment.cel.selector import Selector as Selector
from allotment.cel.selector import compile_selector as compile_selector
