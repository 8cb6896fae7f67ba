"""`kinspect env`: what of this machine matters to tuning, checked, set and set back."""
