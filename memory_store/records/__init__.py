"""What runs left in the lake beside the log: runs, requests, reviews, costs, vectors, usage, and what was purged."""
