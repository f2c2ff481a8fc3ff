"""From a trace to candidates: the gate, the reflectors, and the checks of what they propose."""
