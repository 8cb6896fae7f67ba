"""kinspect: what the compiler made of a Triton or HIP kernel on AMD GPUs, and why it is slow.

The command line is `kinspect`; `kinspect.inspector` holds what it is made of, room by room
(CONTRIBUTING.md says what each is for).
"""
