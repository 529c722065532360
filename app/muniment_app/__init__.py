"""The program: command line, window, services, audit, workspaces. Only ``ui`` and ``bridge`` may import Qt."""

__version__ = "0.1.0"
