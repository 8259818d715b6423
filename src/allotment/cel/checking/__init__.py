"""What can be said of an expression without a device: types, declared functions, literal rules, estimated cost."""
