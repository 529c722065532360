"""Data files and the text catalogue that every other package may use. Lowest layer: imports nothing of ours."""
