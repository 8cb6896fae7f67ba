"""What limits occupancy, and what if."""
