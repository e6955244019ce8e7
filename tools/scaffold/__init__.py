"""Writes the files of a new cloud, role, check or machine, each with a test that fails until it is done."""
