"""Operations on a cluster whose scheduler is Slurm."""
