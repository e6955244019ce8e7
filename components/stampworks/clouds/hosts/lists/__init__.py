"""Forms in which programs of providers list machines: a module for each, found by the provider's name."""
