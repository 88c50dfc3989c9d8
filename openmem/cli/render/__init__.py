"""Renderings: a value becomes lines at a width; nothing here prints or reads."""
