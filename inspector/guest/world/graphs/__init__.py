"""torch.compile in a script, on a machine without a GPU.

Dynamo traces the script's functions over device tensors, and Inductor generates their code for the
claimed GPU, as they would there. The generated code is recorded and not compiled; the traced graph
runs like any other code of the script, which so goes on.

    entry.py      the replacement of torch.compile; loads the other modules when first needed
    originals.py  torch's own functions, restored while Dynamo works
    tracing.py    makes Dynamo take device tensors for the GPU's
    fakes.py      fake tensors of a GPU that torch was not built for
    casting.py    autocast for fake tensors, which torch's C++ does not cast
    attention.py  the attention that torch would choose on the GPU
    generating.py stops Inductor once it has generated its code
    choosing.py   max-autotune without its measurements
    generated.py  the generated code, with the lines of the script that it comes from
    places.py     finds these lines
"""
