"""What a spawned worker process imports first, in place of the main module."""

from ccltui import guard

guard.bind()
