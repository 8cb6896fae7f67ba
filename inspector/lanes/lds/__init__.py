"""Accesses of LDS that nothing keeps in order, found without running the kernel."""
