"""Commands: thin, they call one function, print its value and exit."""
