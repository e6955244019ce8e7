"""Ceilings and floors: the rates that links can carry, as arithmetic with reasons."""
