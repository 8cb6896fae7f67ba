"""The values that make up a sweep: axes, points, figures, tables, the Pareto front.

`inspector/compare/sweep/running.py` compiles one; `formats/sweep.py` prints one.
"""
