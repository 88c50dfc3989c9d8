"""Finding rows again: words, patterns, counts, always within a scope the policy allows."""
