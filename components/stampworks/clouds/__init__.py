"""Clouds, one package each. Differences between clouds are here and in planning/clouds."""
