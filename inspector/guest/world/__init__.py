"""The machine that a script believes in while it runs without a GPU.

world = machine.install(StandInDevice.of({"arch": "gfx942"}), folder)
with world.running():
    ...  # the script
"""
