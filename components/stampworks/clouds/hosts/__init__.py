"""Machines that exist and answer ssh, as a cloud."""
