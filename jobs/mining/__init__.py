"""What recurs over traces: the parts of the job `patterns`."""
