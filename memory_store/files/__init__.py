"""Where bytes are kept: the lake in a folder or a bucket, leases on it, and backups of it."""
