"""What changes the memory: one file a job, a pure function from tables to decisions inside each."""
