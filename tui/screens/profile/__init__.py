"""What was measured, beside what is known without running."""
