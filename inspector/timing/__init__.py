"""How long a launch takes and where the time goes: a compute unit simulated, put in a device."""
