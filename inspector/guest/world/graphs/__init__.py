"""torch.compile in a script, on a machine without a GPU.

Dynamo traces the script's functions over device tensors, and Inductor generates their code for the
claimed GPU, as they would there. The generated code is recorded and not compiled; the traced graph
runs like any other code of the script, which so goes on.
"""
