"""Figures over time."""
