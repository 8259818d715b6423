"""Reference data, as ``-o json`` prints it: rules, hardware, instance types, vocabulary, permissions."""
