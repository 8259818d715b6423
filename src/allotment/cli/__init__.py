"""Screens: parse arguments, call one function of the floors below, print."""
