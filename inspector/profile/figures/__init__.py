"""Dispatches to specialisations, oddities corrected, figures derived with their formulas."""
