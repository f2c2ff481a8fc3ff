"""From candidates to decisions in the log: who meets whom, and what is proposed."""
