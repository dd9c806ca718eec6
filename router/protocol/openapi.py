"""OpenAPI 3.1 descriptions of HTTP interfaces, made from a table of operations: what may be asked, and every answer.

What all processes have in common is said here once: how a refusal looks, what needs a token, how schemas are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

JSON = "application/json"
METRICS_TYPES = ("text/plain", "application/openmetrics-text")
PATH = "/openapi.json"

Schema = dict[str, Any]
Count = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """What a body or an answer is made of, as its schema says; the texts below fields become their descriptions."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ErrorText(Part):
    """What went wrong."""

    kind: str
    """One word for it."""
    message: str
    """What was expected, what was found, what to do."""


class Error(Part):
    """A refused request; it has changed nothing."""

    error: ErrorText


class Description(Part):
    """An OpenAPI description."""

    model_config = ConfigDict(extra="allow")

    openapi: str
    paths: dict[str, Any]


class Reply(NamedTuple):
    """One answer of an operation.

    Attributes:
        meaning: When it is given.
        schema: Of its JSON, or of its text if `media` says so; `None`: it has no body.
        media: Its content types.
        headers: Headers that come with it, name to description.
    """

    meaning: str
    schema: Schema | None = None
    media: Sequence[str] = (JSON,)
    headers: Mapping[str, str] = {}


class Parameter(NamedTuple):
    """A part of the path or query that varies, or a header field."""

    name: str
    where: Literal["path", "query", "header"]
    meaning: str
    schema: Schema


class Operation(NamedTuple):
    """A method of a path.

    Attributes:
        method: In capitals; whoever has GET has HEAD too.
        path: As in the code.
        summary: What it does, in one sentence. `details`: more of it.
        replies: Status to answer, refusals apart.
        refusals: Status to the kinds of its errors.
        body: The schema of the JSON that is sent. `body_needed`: whether it may not be left out.
        parameters: Of path and query.
        guarded: Whether it needs the token, where the process has one.
    """

    method: str
    path: str
    summary: str
    replies: Mapping[int, Reply]
    refusals: Mapping[int, Sequence[str]] = {}
    details: str = ""
    body: Schema | None = None
    body_needed: bool = False
    parameters: Sequence[Parameter] = ()
    guarded: bool = False


class _WithoutTitles(GenerateJsonSchema):
    """A field's title would only say its name again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def ref(model: type[BaseModel], **narrower: Schema) -> Schema:
    """Point to the schema of a model; `narrower` says more of some of its fields."""
    found: Schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return found | ({"properties": narrower} if narrower else {})


def model_schemas(models: Iterable[type[BaseModel]]) -> dict[str, Schema]:
    """The schemas of models and of all that they are made of, by name."""
    _, found = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/components/schemas/{model}",
        schema_generator=_WithoutTitles,
    )
    schemas: dict[str, Schema] = found.get("$defs", {})
    return schemas


def describe(
    title: str,
    operations: Iterable[Operation],
    models: Iterable[type[BaseModel]],
    schemas: Mapping[str, Schema] | None = None,
) -> Schema:
    """Make the description of one interface.

    Args:
        title: Whose it is.
        operations: What may be asked, metrics and this description apart.
        models: What its schemas point to by `ref`.
        schemas: Further ones, by name.
    """
    paths: dict[str, Schema] = {}
    for operation in (*operations, *_OF_EVERY_PROCESS):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": "1",
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted((model_schemas([Error, Description, *models]) | dict(schemas or {})).items())),
            "securitySchemes": {"token": _TOKEN},
        },
    }


_ABOUT = (
    "Answers are JSON, metrics apart; a refused request changes nothing. Whoever takes GET takes HEAD too. Any other "
    "path is 404 `not_found`, any other method 405 `method` with an `Allow` header. What is no HTTP at all is answered "
    "400 in plain text, and 417 whoever expects anything but `100-continue`. A 500 of kind `internal` is our mistake."
)
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "Asked for only where the process was given a token.",
}
_FROM_A_PAGE = Reply("It comes from a web page (`Origin`), and the process was given no token.")
_WITHOUT_TOKEN = Reply("The token is missing, or another one.", headers={"WWW-Authenticate": "Says `Bearer`."})


def _operation(operation: Operation) -> Schema:
    found: Schema = {"summary": operation.summary, "operationId": _id(operation)}
    if operation.details:
        found["description"] = operation.details
    if operation.parameters:
        found["parameters"] = [
            {"name": name, "in": where, "required": where == "path", "description": meaning, "schema": schema}
            for name, where, meaning, schema in operation.parameters
        ]
    if operation.body is not None:
        found["requestBody"] = {"required": operation.body_needed, "content": {JSON: {"schema": operation.body}}}
    replies, refusals = dict(operation.replies), dict(operation.refusals)
    if operation.body is not None:
        refusals[400] = ("cut", *refusals.get(400, ()))
    if operation.guarded:
        replies[401], refusals[401] = _WITHOUT_TOKEN, ("token",)
        replies[403], refusals[403] = _FROM_A_PAGE, ("page",)
    found["responses"] = {
        str(status): _response(replies.get(status), refusals.get(status, ()))
        for status in sorted({*replies, *refusals})
    }
    found["security"] = [{"token": []}] if operation.guarded else []
    return found


def _id(operation: Operation) -> str:
    words = [word.strip("{}").removesuffix(".json") for word in operation.path.split("/") if word not in ("", "v1")]
    return "_".join([operation.method.lower(), *words])


def _response(reply: Reply | None, kinds: Sequence[str]) -> Schema:
    schemas = [] if reply is None or reply.schema is None else [reply.schema]
    meanings = [] if reply is None else [reply.meaning]
    if kinds:
        schemas.append(ref(Error, error={"properties": {"kind": {"enum": list(kinds)}}}))
        meanings.append(f"Refused: {', '.join(f'`{kind}`' for kind in kinds)}.")
    found: Schema = {"description": " ".join(meanings)}
    if schemas:
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        found["content"] = {media: {"schema": schema} for media in (reply.media if reply else (JSON,))}
    if reply is not None and reply.headers:
        found["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in reply.headers.items()
        }
    return found


_OF_EVERY_PROCESS = (
    Operation(
        "GET", "/metrics", "Show the metrics to Prometheus",
        {200: Reply("In the format that the header `Accept` asks for.", {"type": "string"}, METRICS_TYPES)},
    ),
    Operation("GET", PATH, "Give this description", {200: Reply("It.", ref(Description))}),
)  # fmt: skip
