"""Ceilings and floors: what links can carry, as arithmetic with reasons."""
