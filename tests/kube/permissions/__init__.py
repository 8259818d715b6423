"""Scenarios that prove that each component's permissions suffice and are all required: cluster, accounts, audit log."""
