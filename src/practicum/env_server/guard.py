"""The key of an environment's server, asked for everywhere but on the paths named open."""

from collections.abc import Mapping

from starlette.types import Scope

from practicum.env_server.settings import ServerSettings
from practicum.http.guard import GuardRules, Verdict, has_key

__all__ = ["guard_rules"]


def guard_rules(settings: ServerSettings, open_paths: frozenset[str]) -> GuardRules:
    """What the guard of an environment's server lets through."""

    def may(scope: Scope, headers: Mapping[str, str]) -> Verdict:
        if has_key(headers.get("authorization", ""), settings.key):
            return 0, ""
        return 401, (
            "the key is missing or wrong; send it as `Authorization: Bearer KEY`, or in the "
            "address, as in http://key:KEY@127.0.0.1:8000"
        )

    return GuardRules(
        host=settings.host,
        names=settings.names,
        open_paths=open_paths,
        may=may,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_s=settings.step_timeout_s,
    )
