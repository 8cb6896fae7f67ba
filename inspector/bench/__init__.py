"""The bundled kernels: checked, measured, and what was measured before."""
