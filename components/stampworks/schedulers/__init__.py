"""Plan and roster in, a scheduler's configuration out: pure text."""
