"""The CEL environment of DRA device selectors: parse, check, cost, evaluate."""
