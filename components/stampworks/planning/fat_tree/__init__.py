"""The fat tree of a fabric: switches, cables, tenants, and comparison with a real cabling."""
