"""Ask the tax authority, over HTTP: what a taxpayer is, and to authorise an invoice. Knows nothing of jobs."""

import json
import os
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

URL_VARIABLE = "TAXPAYER_AUTHORITY_URL"
SECONDS = 10.0
LARGEST_REPLY = 65536


class AuthorityRefused(Exception):
    """The authority understood the request and did nothing."""


class NotThere(AuthorityRefused):
    """The authority has no record of it."""


class AuthorityUnreachable(Exception):
    """No connection came about, so nothing was asked."""


class AuthorityUnclear(Exception):
    """The request was sent, and its reply did not come or made no sense: whether it was done, nobody here knows."""


# Whatever else it answers says nothing of what was done.
MEANING: dict[int, type[Exception]] = {
    400: AuthorityRefused,
    401: AuthorityRefused,
    403: AuthorityRefused,
    404: NotThere,
    422: AuthorityRefused,
    429: AuthorityRefused,
}


@dataclass(frozen=True, slots=True)
class TaxAuthority:
    """The authority's service at `url`; it gives up on a reply after `seconds`."""

    url: str
    seconds: float = SECONDS

    @classmethod
    def of_environment(cls, *, seconds: float = SECONDS) -> Self:
        """Return the one that the environment names; its `url` is empty where it names none."""
        return cls(os.environ.get(URL_VARIABLE, "").rstrip("/"), seconds)

    def authorise(self, request_id: str, invoice: dict[str, Any]) -> dict[str, Any]:
        """Have an invoice authorised; returns what was granted, such as its `code`.

        Raises AuthorityRefused or AuthorityUnreachable if certainly nothing happened, AuthorityUnclear otherwise.
        """
        return self._ask("POST", f"/authorisations/{quote(request_id, safe='')}", invoice)

    def find(self, request_id: str) -> dict[str, Any] | None:
        """Return what was granted under this id, or None; raises AuthorityUnclear if it cannot be told now."""
        try:
            return self._ask("GET", f"/authorisations/{quote(request_id, safe='')}")
        except NotThere:
            return None
        except (AuthorityRefused, AuthorityUnreachable) as error:
            raise AuthorityUnclear(str(error)) from error

    def tax_condition(self, taxpayer: str) -> str:
        """Return the condition a taxpayer is registered under."""
        return str(self._ask("GET", f"/taxpayers/{quote(taxpayer, safe='')}")["tax_condition"])

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310 - set by the operator
        try:
            with urlopen(request, timeout=self.seconds) as reply:  # noqa: S310
                answer = json.loads(reply.read(LARGEST_REPLY))
        except HTTPError as error:
            with error:
                kind = MEANING.get(error.code, AuthorityUnclear)
                raise kind(f"the tax authority answered {error.code} {error.reason}") from error
        except URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                raise AuthorityUnreachable("the tax authority cannot be reached just now") from error
            raise AuthorityUnclear("the tax authority did not answer") from error
        except (OSError, HTTPException, ValueError) as error:
            raise AuthorityUnclear("the tax authority's answer was not understood") from error
        if not isinstance(answer, dict):
            raise AuthorityUnclear("the tax authority's answer was not understood")
        return answer
