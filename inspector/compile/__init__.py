"""Host side of compiling: the guest processes, the artifact store and the pass-dump splitter."""
