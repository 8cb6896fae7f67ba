"""TTIR and TTGIR text to operations and layouts, and the algebra of layouts."""
