"""Time and memory of Stampworks, compared with its foundations. Standard library only."""
