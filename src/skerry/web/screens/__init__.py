"""The screens: each reads a record, and shows it."""
