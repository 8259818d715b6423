"""CEL syntax: lexer, parser, macros and the syntax tree."""
