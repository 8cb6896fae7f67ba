"""The parts of `benchmarks.side_by_side`: kinspect beside other tools."""
