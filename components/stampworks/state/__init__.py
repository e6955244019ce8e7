"""State on disk: its folders, and the facts kept there."""
