"""Axis analysis of a TTGIR file: facts about its integers and addresses, dimension by dimension."""
