"""Scheduling of PodGroups as a whole (KEP-4671, 1.37): hierarchy, simulation, placements, preemption, conditions."""
