"""What a purge removes, and from where: the parts of the job `purge`."""
