"""The page of measurements, beside the figures of static analysis."""
