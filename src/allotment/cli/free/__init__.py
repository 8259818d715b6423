"""``allot free``: tables of free and used devices."""
