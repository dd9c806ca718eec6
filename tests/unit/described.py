"""Holds replies of both kinds of process against the descriptions of their interfaces."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web
from jsonschema import Draft202012Validator

Key = tuple[str, str, int]


class Described:
    """What one interface says it answers; collects what it answered otherwise.

    Attributes:
        seen: The method, path (as in the description) and status of each reply that was as described.
        wrong: What was not, in words.
    """

    def __init__(self, description: dict[str, Any]) -> None:
        self.seen: set[Key] = set()
        self.wrong: list[str] = []
        self.statuses: set[Key] = set()
        self._content: dict[Key, dict[str, Draft202012Validator]] = {}
        schemas = {"components": description["components"]}
        for path, operations in description["paths"].items():
            for method, operation in operations.items():
                for status, response in operation["responses"].items():
                    key = method.upper(), path, int(status)
                    self.statuses.add(key)
                    self._content[key] = {
                        media: Draft202012Validator(content["schema"] | schemas)
                        for media, content in response.get("content", {}).items()
                    }
        error = Draft202012Validator({"$ref": "#/components/schemas/Error"} | schemas)
        self._anywhere = {status: {"application/json": error} for status in (404, 405)}
        self._anywhere[417] = {"text/plain": Draft202012Validator({"type": "string"})}

    def attach(self, app: web.Application) -> None:
        """Watch every reply of an application that has not started."""

        async def watch(request: web.Request, response: web.StreamResponse) -> None:
            resource = request.match_info.route.resource
            path = request.path if resource is None else resource.canonical
            body = response.body if isinstance(response, web.Response) else b""
            self.check("GET" if request.method == "HEAD" else request.method, path, response, body)

        app.on_response_prepare.append(watch)

    def check(self, method: str, path: str, response: Any, body: Any) -> None:
        """Hold one reply against the description; `response` has status and headers, of whichever side."""
        key = method, path, response.status
        content = self._content.get(key, self._anywhere.get(response.status))
        where = f"{method} {path}: {response.status}"
        if content is None:
            self.wrong.append(f"{where} is not described")
            return
        media = response.content_type
        if not content and not body:
            self.seen.add(key)
        elif media not in content:
            self.wrong.append(f"{where}: {media} is not among {list(content)}")
        else:
            value = json.loads(body) if media == "application/json" else bytes(body).decode()
            errors = [error.message for error in content[media].iter_errors(value)]
            self.wrong += [f"{where}: {message}: {value}" for message in errors]
            if not errors:
                self.seen.add(key)
