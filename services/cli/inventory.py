"""The commands about what there is: policy, policies, scenarios."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.cli.access import with_access
from services.cli.options import AsJson, RouterList, Sets, say


@with_access
def policy(
    name: Annotated[str, typer.Argument(help="A policy; `herdless policies` lists them.", show_default=False)],
    routers: RouterList,
    set: Sets = [],  # noqa: A002, B006 - typer reads the name and the default
    as_json: AsJson = False,
) -> int:
    """Switch the policy of running routers; its parameters follow --set: --set d=3."""
    import asyncio

    from router.registry import make_parameters
    from services.lab.attach import addresses, put_policy
    from services.scenario_text import policy_words, read_table

    given = read_table("", [change.removeprefix("policy.") for change in set])
    table = {"name": name, **given}
    make_parameters(table)  # the exact message, before any router is asked

    async def switch() -> dict[str, dict[str, Any]]:
        return await put_policy(await addresses(routers), table)

    answers = asyncio.run(switch())
    if as_json:
        say({"routers": answers})
    else:
        for url, in_force in answers.items():
            typer.echo(f"{url}  {policy_words(in_force)}")
    return 0


def policies(set: Sets = [], as_json: AsJson = False) -> int:  # noqa: A002, B006
    """List the policies and their parameters."""
    from router.registry import policy_names, policy_type

    del set  # every command takes it; here there is nothing to change
    found: list[dict[str, Any]] = [
        {"name": name, "summary": _summary(policy_type(name)), "parameters": _described(policy_type(name))}
        for name in policy_names()
    ]
    if as_json:
        say({"policies": found})
        return 0
    for entry in found:
        typer.echo(f"{entry['name']:<16} {entry['summary']}")
        for name, parameter in entry["parameters"].items():
            typer.echo(f"{'':<16}   {name} = {parameter['default']!r}  {_choices(parameter)}".rstrip())
    return 0


def scenarios(set: Sets = [], as_json: AsJson = False) -> int:  # noqa: A002, B006
    """List the scenarios that are shipped."""
    from services.scenario import parse_scenario
    from services.scenarios import shipped

    found = []
    for name, text in shipped().items():
        scenario = parse_scenario(text, name, set)
        found.append(
            {"name": name, "title": scenario.title, "source": scenario.source, "policy": scenario.policy_name,
             "seconds": scenario.horizon * scenario.time_unit_s}
        )  # fmt: skip
    if as_json:
        say({"scenarios": found})
        return 0
    width = max(len(str(entry["name"])) for entry in found)
    for entry in found:
        typer.echo(f"{entry['name']:<{width}}  {entry['title']} ({entry['source']})")
    return 0


def _summary(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _described(kind: Any) -> dict[str, dict[str, Any]]:
    """Name, default and allowed values of each parameter, from its JSON schema."""
    schema = kind.parameters_type.model_json_schema()
    return {
        name: {"default": parameter.get("default")}
        | {key: parameter[key] for key in ("enum", "anyOf", "type", "minimum", "maximum") if key in parameter}
        for name, parameter in schema.get("properties", {}).items()
    }


def _choices(parameter: dict[str, Any]) -> str:
    """What a parameter may be, as far as its default does not say it."""
    choices = [word for kind in parameter.get("anyOf", [parameter]) for word in _words(kind)]
    return "one of " + ", ".join(choices) if len(choices) > 1 else ""


def _words(kind: dict[str, Any]) -> list[str]:
    if "const" in kind:
        return [str(kind["const"])]
    if "enum" in kind:
        return [str(word) for word in kind["enum"]]
    return [{"integer": "a whole number", "number": "a number", "array": "a list"}.get(kind["type"], "None")]
