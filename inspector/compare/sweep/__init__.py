"""The values that make up a sweep: axes, points, figures, tables, the Pareto front."""
