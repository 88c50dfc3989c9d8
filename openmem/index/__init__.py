"""What stands elsewhere on this machine, brought in: sessions of agents."""
