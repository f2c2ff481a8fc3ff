"""What agents did and said: events, the spool that acknowledges them, masking, traces, episodes, passages, reads."""
