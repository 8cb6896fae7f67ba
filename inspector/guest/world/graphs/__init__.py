"""torch.compile in a script, on a machine without a GPU.

Dynamo traces the script's functions over device tensors, and Inductor generates their code for the
claimed GPU, as they would there. What is generated is taken down and not compiled; the traced graph
runs in the world like any other code, so that the script goes on.

    entry.py      torch.compile as the script finds it: made ready when it is first needed
    originals.py  torch as it was before the world changed it, for the time that Dynamo works
    tracing.py    Dynamo takes device tensors for the GPU's
    fakes.py      fake tensors of a GPU that torch was not built for
    casting.py    autocast, which torch's C++ leaves out for them
    attention.py  which attention torch would choose
    generating.py Inductor is stopped when its text is there
    choosing.py   max-autotune, which would time what it chooses among
    generated.py  the text, and where in the script it comes from
"""
