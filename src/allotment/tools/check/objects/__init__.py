"""What rules know of objects: their versions and fields, the gates that these need, and what the API server refuses."""
