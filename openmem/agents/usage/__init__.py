"""What agents' own session files say of their model calls: sizes and times, never words."""
