"""Repositories, vaults and notes into a bank."""
