"""Commands in the order of their help, imported when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

__all__ = ["LazyCommands", "OrderedGroup"]


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they were given, not by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(self.commands)


class LazyCommands(Mapping[str, click.Command]):
    """Commands by name; the module of one is imported when it is looked up.

    Args:
        modules: Per command its module, in which an underscore stands for each hyphen of the name.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> click.Command:
        """Import a command.

        Raises:
            KeyError: There is no command of this name.
        """
        command = getattr(import_module(self._modules[name]), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
