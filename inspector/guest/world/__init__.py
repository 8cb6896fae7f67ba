"""The machine that a script believes in while it runs without a GPU.

world = install(StandInDevice.of({"arch": "gfx942"}), folder)
with world.running():
    ...  # the script
"""

from __future__ import annotations

from .device import StandInDevice
from .machine import World, install

__all__ = ["StandInDevice", "World", "install"]
