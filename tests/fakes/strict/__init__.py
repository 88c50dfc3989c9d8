"""What the newest models refuse, built from the vendor's published rules alone.

Nothing here shares code with openmem: a validator that shares its author's reading of the rules
proves nothing. **Not verified against the live API.** Source: newest-models facts, section 5.
"""
