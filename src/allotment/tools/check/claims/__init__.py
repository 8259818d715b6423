"""What rules know of claims: who names them, which devices they ask for, and how these are shared and set up."""
