"""What was measured before, on which device: kept on disk under the user's data folder."""
