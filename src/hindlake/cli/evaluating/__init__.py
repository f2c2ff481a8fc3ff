"""How recall is measured: labelled sets as histories, a home that holds them, questions asked of it, scores."""
