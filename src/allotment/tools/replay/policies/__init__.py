"""Policies for placing pods, one file each."""
