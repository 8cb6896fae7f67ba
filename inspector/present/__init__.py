"""What reports say, as documents, and the renderers of these: one document, one form in each."""
