"""Static analysis of expressions: declared functions, type checking, literal validation and cost estimates."""
