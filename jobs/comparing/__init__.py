"""How two memories relate: what they pin down, how they are worded, and who judges in doubt."""
