"""What can be told from a trace by rule: statements of users, corrections, failures and their repairs, contrasts."""
