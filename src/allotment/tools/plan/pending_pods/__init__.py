"""What waits: pods with their claims and volumes, in groups of equal ones."""
