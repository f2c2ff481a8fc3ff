"""What is kept: the lake, the decision log and its fold, the LanceDB store, search and ranking."""
