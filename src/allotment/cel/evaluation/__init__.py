"""Evaluation of expressions: values, the planner that turns a checked tree into closures, functions, runtime cost."""
