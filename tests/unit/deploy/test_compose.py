"""docker-compose.yml agrees with the command line and the settings, though no engine runs it here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
import yaml
from pydantic import BaseModel

from memforest_core.cli.program import app
from memforest_core.settings import Settings
from memforest_core.work.messages import Queue
from memforest_workers.worker import STOP_DEADLINE_S
from tests.unit.deploy.builders import ROOT

STORES = {"postgres", "redis", "qdrant"}
QUEUES = {queue.value for queue in Queue}
OURS = {*QUEUES, "migrate", "api", "flower"}
SECRETS = {"POSTGRES_PASSWORD", "MEMFOREST_APP_PASSWORD", "REDIS_PASSWORD", "FLOWER_BASIC_AUTH"}
PREFIX = str(Settings.model_config.get("env_prefix"))
DELIMITER = str(Settings.model_config.get("env_nested_delimiter"))
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<rule>:-|:\?)(?P<rest>[^}]*))?\}")


def interpolated(value: Any) -> Any:
    """A value as compose passes it on: defaults filled in, what must be set called by its name."""
    if isinstance(value, dict):
        return {key: interpolated(part) for key, part in value.items()}
    if isinstance(value, list):
        return [interpolated(part) for part in value]
    if isinstance(value, str):
        return VARIABLE.sub(lambda m: m["rest"] if m["rule"] == ":-" else m["name"], value)
    return value


TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = interpolated(yaml.safe_load(TEXT))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def variables(model: type[BaseModel], prefix: str = PREFIX) -> Iterator[str]:
    """Every environment variable that sets a field of the settings."""
    for name, field in model.model_fields.items():
        variable = f"{prefix}{name.upper()}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from variables(field.annotation, variable + DELIMITER)
        else:
            yield variable


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What the command line makes of arguments, without running anything. Raises for an unknown command or option."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("memforest", list(arguments))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return dict(context.params)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each ``memforest`` command line in the file, with the service that runs it."""
    for name, service in SERVICES.items():
        for line in (service.get("command"), (service.get("healthcheck") or {}).get("test")):
            words = shlex.split(line) if isinstance(line, str) else list(line or [])
            if words[:1] == ["CMD"]:
                words = words[1:]
            if words[:1] == ["memforest"]:
                yield name, words[1:]


KNOWN = set(getattr(typer.main.get_command(app), "commands", {}))
COMMANDS = [(name, arguments) for name, arguments in commands() if arguments[0] in KNOWN or arguments[0] != "serve"]
"""``serve`` is looked at as soon as there is such a command."""


def connections() -> int:
    """The most connections that eight extract workers and one of each other queue hold, with nothing but defaults."""
    pool = Settings.model_fields["database"].default
    return int((8 + len(QUEUES) - 1) * (pool.pool_size + pool.max_overflow))


@pytest.mark.parametrize(("service", "arguments"), COMMANDS, ids=[" ".join([s, *a]) for s, a in COMMANDS])
def test_a_command_exists_with_its_options(service: str, arguments: list[str]) -> None:
    """Given a command line of a service, then the CLI knows the command and every option of it."""
    assert isinstance(parsed(arguments), dict)


@pytest.mark.parametrize("queue", sorted(QUEUES))
def test_each_queue_has_a_service_of_its_name(queue: str) -> None:
    """Given ``--scale extract=8``, then eight workers of that queue run: nothing fixes a name or a port."""
    service = SERVICES[queue]
    assert service["command"][:4] == ["memforest", "worker", "--queues", queue]
    assert "container_name" not in service
    assert "ports" not in service
    assert service["healthcheck"]["test"] == ["CMD", "memforest", "worker-health"]
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_settings_of_a_service_exist(name: str) -> None:
    """Given a service, then each of its MEMFOREST_ variables sets a field."""
    used = {variable for variable in SERVICES[name].get("environment", {}) if variable.startswith(PREFIX)}
    assert used - set(variables(Settings)) == set()
    if name in OURS:
        assert f"{PREFIX}BROKER{DELIMITER}URL" in used


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_values_are_valid_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a service's variables, when a process reads them, then they are accepted."""
    for variable, value in SERVICES[name]["environment"].items():
        if variable.startswith(PREFIX) and value is not None:
            monkeypatch.setenv(variable, value)
    settings = Settings()
    assert settings.broker.url.get_secret_value().startswith("redis://:REDIS_PASSWORD@redis:")
    if name != "flower":
        assert settings.database.url.get_secret_value().startswith("postgresql+psycopg://memforest_app:")
        assert settings.index.kind == "qdrant"


def test_no_image_floats() -> None:
    """Given a store, then its image has a full version; ours are built from one Dockerfile."""
    for name in STORES:
        assert re.search(r":v?\d+\.\d+(\.\d+)?$", SERVICES[name]["image"]), name
    built = {(SERVICES[name]["image"], SERVICES[name]["build"]["dockerfile"]) for name in OURS}
    assert len(built) == 1
    bases = re.findall(r"^FROM (\S+)", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert bases
    assert all(re.search(r":\d+\.\d+\.\d+-", base) for base in bases)


def test_stores_keep_their_data_and_say_how_they_are() -> None:
    for name in STORES:
        mounts = [str(mount).split(":")[0] for mount in SERVICES[name]["volumes"]]
        assert set(mounts) <= set(COMPOSE["volumes"])
        assert SERVICES[name]["healthcheck"]["test"]
        assert SERVICES[name]["restart"] == "unless-stopped"
    # Since version 18 the image stores each major version's data in a folder below this one.
    assert SERVICES["postgres"]["volumes"] == ["postgres-data:/var/lib/postgresql"]


def test_workers_and_api_start_after_the_migration() -> None:
    """Given a worker or the API, then it waits for the migration's end and for healthy stores."""
    for name in QUEUES | {"api"}:
        conditions = {other: how["condition"] for other, how in SERVICES[name]["depends_on"].items()}
        assert conditions["migrate"] == "service_completed_successfully"
        assert conditions["redis"] == conditions["qdrant"] == "service_healthy"
    assert SERVICES["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert SERVICES["migrate"]["restart"] == "no"


def test_each_part_has_the_secrets_that_it_needs_and_no_more() -> None:
    """Given the owner's address, the model's key and Flower's password, then only those who use them have them."""
    holders = {
        f"{PREFIX}DATABASE__MIGRATION_URL": {"migrate"},
        f"{PREFIX}LLM__API_KEY": {"api", "extract", "refresh"},
        "FLOWER_BASIC_AUTH": {"flower"},
    }
    for variable, expected in holders.items():
        found = {name for name, service in SERVICES.items() if variable in service.get("environment", {})}
        assert found == expected, variable


def test_secrets_have_no_defaults() -> None:
    """Given no passwords, then compose refuses to start."""
    rules = {match["name"]: match["rule"] for match in VARIABLE.finditer(TEXT)}
    assert {name for name, rule in rules.items() if rule == ":?"} == SECRETS
    assert set(rules.values()) == {":?", ":-"}


def test_the_example_names_every_variable() -> None:
    """Given deploy/env.example, then it names what the file reads, and nothing else, with the same defaults."""
    example = dict(re.findall(r"^(?:# )?([A-Z][A-Z_]+)=(.*)$", (ROOT / "deploy/env.example").read_text(), re.MULTILINE))
    defaults = {match["name"]: match["rest"] if match["rule"] == ":-" else "" for match in VARIABLE.finditer(TEXT)}
    passed_on = {
        variable: ""
        for service in SERVICES.values()
        for variable, value in service.get("environment", {}).items()
        if value is None
    }
    assert example == defaults | passed_on


def test_the_broker_requires_its_password() -> None:
    """Given the broker, then it starts with the password, which is in no command line, and its health check uses it."""
    broker = SERVICES["redis"]
    assert broker["environment"] == {"REDIS_PASSWORD": "REDIS_PASSWORD"}
    assert "requirepass" in broker["command"][-1]
    assert "$$REDIS_PASSWORD" in broker["command"][-1]
    assert "$$REDIS_PASSWORD" in broker["healthcheck"]["test"][-1]


def test_ports_are_open_on_this_host_only() -> None:
    """Given a published port, then it is bound to the loopback address; Flower's is 5555."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "127.0.0.1:5555:5555" in SERVICES["flower"]["ports"]


def test_containers_have_no_rights() -> None:
    """Given one of our containers, then it can write nowhere but to /tmp, and is not root."""
    for name in OURS:
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]
        assert service["cap_drop"] == ["ALL"]
    users = re.findall(r"^USER (\S+)", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert users == ["10001:10001"]


def test_postgres_takes_the_connections_of_a_scaled_deployment() -> None:
    """Given ``--scale extract=8``, then all pools together, and forty more, fit into max_connections."""
    setting = next(word for word in SERVICES["postgres"]["command"] if word.startswith("max_connections="))
    assert int(setting.partition("=")[2]) >= connections() + 40


def test_a_worker_may_leave_in_good_order() -> None:
    """Given a stop, then a worker has the time that it gives its running calls, and ten seconds to sign off."""
    for name in QUEUES:
        assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) >= STOP_DEADLINE_S + 10
