"""The door to a chat model: questions, replies, prompts, the ceiling of a run, and batches."""
