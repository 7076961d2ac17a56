"""Commands that change rows and branches."""
