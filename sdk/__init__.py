"""What an agent touches: the Recorder writes traces, Memory recalls what was learned from them."""
