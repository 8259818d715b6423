"""What is needed to prove that permissions suffice, and that none is too many: a cluster, accounts, what was asked."""
