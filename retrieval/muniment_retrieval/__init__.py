"""Reads documents and finds evidence in them. Knows nothing of Qt, models or the app."""
