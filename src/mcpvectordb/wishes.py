"""What the settings ask of the embedding model, in the words of embed/, which does not know the settings."""

from __future__ import annotations

from . import embed
from .settings import Settings


def wish(settings: Settings) -> embed.Wish:
    choices = embed.Choices(
        dimensions=settings.model_dimensions,
        file=settings.model_file,
        pooling=settings.model_pooling or None,
        document_prefix=settings.model_document_prefix or None,
        query_prefix=settings.model_query_prefix or None,
    )
    return embed.Wish(
        model=settings.model, runtime=settings.runtime, choices=choices, idle_s=settings.model_idle_s
    )
