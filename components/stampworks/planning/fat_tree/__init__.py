"""The fat tree of a fabric: switches, cables, tenants, and a cabling that was found."""
