"""What a sweep is made of: axes, points, figures, tables, the Pareto front. Pure values.

`inspector/compare/sweep/running.py` compiles one; `formats/sweep.py` prints one.
"""
