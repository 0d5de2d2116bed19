"""Errors a user can act on. Imports nothing.

VectorDBError
├── ConfigError             a setting is missing, misspelt or out of range
├── ArgumentError           a tool was called with arguments it does not take
├── SourceError             the thing named cannot be read
│   ├── SourceNotFound
│   ├── SourceForbidden     a secret place, a device, a pipe
│   └── SourceTooLarge
├── ConversionError         it was read but not understood
│   ├── UnsupportedType
│   └── ConverterDied       and took its converter with it
├── EmbeddingError          the model is missing or failed
│   ├── HubUnavailable      the hub of models is away, or we are told not to go there
│   └── ModelOnTheWay       its files are being downloaded; the sentence says how far
├── QueryError              the query or filter is not valid
├── NotANote                the document is there, but its text is a file's
├── EngineError             the knowledge base's engine is away, or says no
├── UploadError             an upload is unknown, not whole, or not what was announced
├── CallTimeout             the call took too long; the sentence says what goes on
├── Stopped                 the program is ending and the work was given up, nothing half written
├── JobCancelled            somebody asked for the work to be given up, and it was
└── StoreError              the database cannot be read or written
    ├── DocumentNotFound
    ├── JobNotFound
    ├── EmbedderMismatch
    ├── StoreBusy
    ├── StoreDamaged        no version of it reads whole
    └── JobsDamaged         the jobs' own file cannot be read, whoever tries

Anything else is a bug: the border logs its traceback and answers "internal error" in the same shape.
"""


class VectorDBError(Exception):
    """Base of every error whose message is meant for the person or model that made the call."""


class ConfigError(VectorDBError):
    pass


class ArgumentError(VectorDBError):
    pass


class SourceError(VectorDBError):
    pass


class SourceNotFound(SourceError):
    pass


class SourceForbidden(SourceError):
    pass


class SourceTooLarge(SourceError):
    pass


class ConversionError(VectorDBError):
    pass


class UnsupportedType(ConversionError):
    pass


class ConverterDied(ConversionError):
    pass


class EmbeddingError(VectorDBError):
    pass


class HubUnavailable(EmbeddingError):
    pass


class ModelOnTheWay(EmbeddingError):
    pass


class QueryError(VectorDBError):
    pass


class NotANote(VectorDBError):
    pass


class EngineError(VectorDBError):
    pass


class UploadError(VectorDBError):
    pass


class CallTimeout(VectorDBError):
    pass


class Stopped(VectorDBError):
    pass


class JobCancelled(VectorDBError):
    pass


class StoreError(VectorDBError):
    pass


class DocumentNotFound(StoreError):
    pass


class JobNotFound(StoreError):
    pass


class EmbedderMismatch(StoreError):
    pass


class StoreBusy(StoreError):
    pass


class JobsDamaged(StoreError):
    pass


class StoreDamaged(StoreError):
    pass
