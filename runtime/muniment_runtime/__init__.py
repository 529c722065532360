"""Runs local models within the memory that is free now. Knows nothing of Qt, documents or the app."""
