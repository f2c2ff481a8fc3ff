"""When the jobs run: Prefect flows around them, and nothing else."""
