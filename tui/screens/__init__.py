"""The pages, a folder each, and the dialogues that several pages open, a file each."""
