"""What a text says of itself: language, terms, dates, names, tokens, and what likeness of two texts means."""
