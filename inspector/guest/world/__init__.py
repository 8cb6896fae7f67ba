"""The machine that a script believes in while it runs without a GPU.

world = install(Device.of({"arch": "gfx942"}), folder)
with world.running():
    ...  # the script
"""

from __future__ import annotations

from .device import Device
from .scene import World, install

__all__ = ["Device", "World", "install"]
