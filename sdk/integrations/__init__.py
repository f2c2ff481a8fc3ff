"""Memory beside other frameworks: one file each, loaded by whoever imports it and by nobody else."""
