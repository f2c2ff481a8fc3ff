"""Finding memories: filters, legs, one ranking, and why a search returned what it did."""
