"""Commands in the order and the sections of their help, imported when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

__all__ = ["LazyCommands", "OrderedGroup", "SectionedGroup"]


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they were given, not by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(self.commands)


class SectionedGroup(OrderedGroup):
    """A group whose help lists its commands by sections, without importing them.

    Args:
        sections: Per title the commands by name, each in a few words.
        options: Those of a group.
    """

    def __init__(self, *, sections: Mapping[str, Mapping[str, str]], **options: Any) -> None:
        super().__init__(**options)
        self._sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        width = max(len(name) for commands in self._sections.values() for name in commands)
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])


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
