"""Rules of the built-in kinds (defaults, validation, admission), one module per family."""
