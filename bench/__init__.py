"""What Stampworks costs in time and memory, measured beside what it is built on. Standard library only."""
