"""The page of occupancy: its limits for one kernel, and for changed figures."""
