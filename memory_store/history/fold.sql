-- The state of each memory: the last accepted value of each column that changes, by sequence number.
SELECT
    id,
    max(seq) AS seq,
    arg_max(state, seq) FILTER (state IS NOT NULL) AS state,
    arg_max(strength, seq) FILTER (strength IS NOT NULL) AS strength,
    arg_max(confidence, seq) FILTER (confidence IS NOT NULL) AS confidence,
    arg_max(valid_from, seq) FILTER (valid_from IS NOT NULL) AS valid_from,
    arg_max(valid_to, seq) FILTER (valid_to IS NOT NULL) AS valid_to,
    arg_max(superseded_by, seq) FILTER (superseded_by IS NOT NULL) AS superseded_by
FROM changes
GROUP BY id
ORDER BY id;
