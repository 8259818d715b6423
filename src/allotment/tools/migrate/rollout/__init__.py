"""The order of the steps to roll out a migration and to roll it back."""
