"""The decision log and what it says: acts, their fold, any past time, and how a memory came to be."""
