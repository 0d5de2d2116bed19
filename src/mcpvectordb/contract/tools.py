"""A tool as data: its name, its words for the model, its arguments and answers, its hints."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_types import Tool as ToolInfo
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from .answers import output_schema
from .arguments import Arguments, input_schema


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolWords:
    """What clients are told of a tool. Who serves it adds what calling it does."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[BaseModel]
    other_results: tuple[type[BaseModel], ...] = ()
    read_only: bool
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False

    def info(self) -> ToolInfo:
        return ToolInfo(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=input_schema(self.arguments),
            output_schema=output_schema(self.result, *self.other_results),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=self.open_world,
            ),
        )
