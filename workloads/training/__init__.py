"""A training job that survives failures and accounts for every second."""
