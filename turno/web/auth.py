"""Authenticate a request: by a bearer token, by the session cookie of the pages, or by the login of the application."""

import hmac
import logging
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Lock
from time import monotonic, time
from typing import Any, Literal, NamedTuple, NoReturn, get_args
from urllib.parse import urlsplit

import jwt
from flask import Request, Response

from turno.errors import InvalidSettings
from turno.settings import Settings
from turno.tenancy.identity.tenant import Tenant
from turno.web.responses import Kind, Problem
from turno.web.services import at, over_https, services

log = logging.getLogger(__name__)

# reader: sees all that operators see, changes nothing. admin: an operator without redaction.
Role = Literal["reader", "operator", "admin"]
LONGEST_USER = 255  # characters
# Seconds until a stream ends and its client authenticates again, unless a principal has another `expires_at`.
SESSION_SECONDS = 600.0
LONGEST_MAIL_ADDRESS = 254
# Without characters of headers and lists of recipients; quoted names are refused, too.
_MAIL_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user, the tenants they may choose from, and whether they run the installation, or some companies of it.

    A user with a `role` may choose any tenant and sees every user's jobs in the tenants of `companies`, or with None in
    all. `operator=True` is short for the role operator, and true of every role. `issued_at` and `expires_at` are in
    seconds since 1970: a principal from before its tenant's tokens were revoked counts no more, and a stream ends with
    its principal. `email` is an address that is proven to be theirs, where mails on their jobs go. Raises ValueError
    for a user that cannot be stored or an `email` that is no address, TypeError if `tenants` is a string.
    """

    user: str
    tenants: Collection[str]
    operator: bool = False
    role: Role | None = None
    companies: Collection[str] | None = None
    email: str | None = None
    issued_at: float = field(default_factory=time)
    expires_at: float = field(default_factory=lambda: time() + SESSION_SECONDS)

    def __post_init__(self) -> None:
        if not storable(self.user):
            raise ValueError("a principal's user must have 1 to 255 printable characters")
        if self.email is not None and not is_mail_address(self.email):
            raise ValueError("a principal's email must be an address such as ana@shop.example")
        if isinstance(self.tenants, str) or isinstance(self.companies, str):
            raise TypeError("a principal's tenants, and companies, must be a list of names, not one text")
        if self.role not in (None, *get_args(Role)):
            raise ValueError(f"a principal's role must be one of {', '.join(get_args(Role))}, or None")
        object.__setattr__(self, "role", self.role or ("operator" if self.operator else None))
        object.__setattr__(self, "operator", self.role is not None)

    @property
    def may_change(self) -> bool:
        """Whether they may change anything: false only for a reader."""
        return self.role != "reader"

    @property
    def everywhere(self) -> bool:
        """Whether they operate every company's tenants, and all shared objects."""
        return self.operator and self.companies is None

    def operates(self, company: str) -> bool:
        """Say whether a company's tenants are theirs to operate."""
        return self.operator and (self.companies is None or company in self.companies)

    def within(self, tenant: Tenant) -> "Principal | None":
        """Return the principal's rights in a chosen tenant, which must be listed for them unless they are operators.

        An operator of other companies is a user in a listed tenant, and has no access (None) to any other.
        """
        if not self.operator or self.operates(tenant.company):
            return self
        return replace(self, operator=False, role=None, companies=None) if tenant.slug in self.tenants else None


def storable(user: str) -> bool:
    """Say whether a user can be stored and shown: PostgreSQL has no NUL, control characters forge lines of a log."""
    return 0 < len(user) <= LONGEST_USER and user.isprintable()


def is_mail_address(text: str) -> bool:
    """Return whether a mail may be sent to this address."""
    return len(text) <= LONGEST_MAIL_ADDRESS and _MAIL_ADDRESS.fullmatch(text) is not None


WINDOW_SECONDS = 60.0  # seconds
MAX_ADDRESSES = 10_000  # with a separate counter within a window
OTHERS = "other addresses"


class WrongTokens:
    """Counts wrong tokens by address within this process; `most` a minute are answered with 401, further ones with 429.

    Only wrong tokens are refused with 429: several clients may share an address, and correct tokens stay valid.
    """

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._seen: Counter[str] = Counter()
        self._over_at = 0.0

    def count(self, address: str) -> float | None:
        """Count one; if there were too many of that address, return in how many seconds it may send another."""
        if not self._most:
            return None
        with self._lock:
            now = self._clock()
            if now >= self._over_at:
                self._seen.clear()
                self._over_at = now + WINDOW_SECONDS
            if address not in self._seen and len(self._seen) >= MAX_ADDRESSES:
                address = OTHERS
            self._seen[address] += 1
            seen, left = self._seen[address], self._over_at - now
        if seen <= self._most:
            return None
        if seen == self._most + 1:
            log.warning("more than %s wrong tokens a minute from %s", self._most, address, extra={"alert": "tokens"})
        return left


# The algorithms of each kind of key.
SHARED_SECRETS = (("HS256",),)
PUBLIC_KEYS = (("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("ES256",), ("ES384",), ("ES512",), ("EdDSA",))
LEEWAY_SECONDS = 30
LONGEST_TOKEN = 8192
MOST_ACCEPTED = 10_000  # cached tokens with a verified signature
ROLES: tuple[Role, ...] = ("admin", "operator", "reader")  # of several in a token the first counts
REQUIRED = ["exp", "iat", "aud", "iss", "sub"]


class TokenCheck:
    """Accepts tokens of one issuer, under one key and the algorithms of its kind; raises InvalidSettings for a bad key.

    A token's header chooses among these algorithms only: a public key is never the secret of an HMAC.
    """

    def __init__(self, settings: Settings) -> None:
        self._key, self._algorithms = verification_key(settings.jwt_key)
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._accepted: dict[bytes, Principal] = {}  # by the digest of a token, until it expires
        self._wrong = WrongTokens(settings.limits.wrong_tokens_per_minute)

    def principal(self, authorization: str | None, sender: str | None = None) -> Principal:
        """Return the principal of an Authorization header; raises Problem as `read` does."""
        if not authorization:
            text = "Send the header `Authorization: Bearer <token>`."
            raise Problem(Kind.NOT_AUTHENTICATED, text, headers={"WWW-Authenticate": 'Bearer realm="turno"'})
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or len(token) > LONGEST_TOKEN:
            refuse_token("The Authorization header must be `Bearer` and one token.")
        return self.read(token.strip(), sender)

    def read(self, token: str, sender: str | None = None) -> Principal:
        """Return the principal of a bare token; raises Problem 401, or 429 after too many of the address `sender`."""
        digest = sha256(token.encode()).digest()
        principal = self._accepted.get(digest)
        if principal is None or principal.expires_at + LEEWAY_SECONDS <= time():
            principal = _principal(self._claims(token, sender))
            if len(self._accepted) >= MOST_ACCEPTED:
                self._accepted.clear()
            self._accepted[digest] = principal
        return principal

    def _claims(self, token: str, sender: str | None) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                self._key,
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED},
            )
        except jwt.ExpiredSignatureError:
            refuse_token("The token has expired; ask its issuer for a new one.")
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            if (retry_in := self._wrong.count(sender or "an unknown address")) is not None:
                raise Problem(
                    Kind.RATE,
                    "The token is not one that this service accepts, as others before it from this address.",
                    headers={"Retry-After": str(math.ceil(retry_in))},
                    limit="wrong_tokens_per_minute",
                ) from None
            refuse_token("The token is not one that this service accepts.")


def refuse_token(detail: str) -> NoReturn:
    """Raise the 401 of a token that cannot be used."""
    challenge = 'Bearer realm="turno", error="invalid_token"'
    raise Problem(Kind.NOT_AUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


def _principal(claims: dict[str, Any]) -> Principal:
    user = claims["sub"]
    if not storable(user):
        refuse_token("The token's sub must be 1 to 255 printable characters.")
    issued_at = claims["iat"]
    if isinstance(issued_at, bool) or not isinstance(issued_at, int | float):
        refuse_token("The token's iat must be seconds since 1970.")
    named = _names(claims, "roles")
    return Principal(
        user=user,
        tenants=_names(claims, "tenants"),
        role=next((role for role in ROLES if role in named), None),
        companies=_names(claims, "companies") if "companies" in claims else None,
        email=_email(claims),
        # At the earliest: its issuer's clock may be ahead, and a token must not outlive its revocation.
        issued_at=issued_at - LEEWAY_SECONDS,
        expires_at=float(claims["exp"]),
    )


def _email(claims: dict[str, Any]) -> str | None:
    """Return the address of a token's OpenID Connect claims; None for an address that is not verified."""
    email = claims.get("email")
    verified = claims.get("email_verified", True) is True
    return email if verified and isinstance(email, str) and is_mail_address(email) else None


def _names(claims: dict[str, Any], claim: str) -> frozenset[str]:
    names = claims.get(claim, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse_token(f"The token's {claim} must be a list of names.")
    return frozenset(names)


def verification_key(key: str) -> tuple[Any, list[str]]:
    """Return the key, parsed once, and the algorithms of its kind; raises InvalidSettings."""
    if not key:
        raise InvalidSettings(["TURNO_JWT_KEY is not set: it is the secret or public key that verifies tokens"])
    for algorithms in PUBLIC_KEYS if key.lstrip().startswith("-----BEGIN") else SHARED_SECRETS:
        algorithm = jwt.get_algorithm_by_name(algorithms[0])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                prepared = algorithm.prepare_key(key)
        except (jwt.PyJWTError, NotImplementedError, ValueError, TypeError, Warning):
            continue  # a key of another kind
        if problem := algorithm.check_key_length(prepared):
            raise InvalidSettings([f"TURNO_JWT_KEY is too short for {algorithms[0]}: {problem}"])
        return prepared, [*algorithms]
    raise InvalidSettings(["TURNO_JWT_KEY: expected a secret, or an RSA, EC or Ed25519 public key in PEM"])


SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def require_same_origin(request: Request) -> None:
    """Raise Problem 403 unless a page of this very origin sends the request; an unknown sender is refused."""
    if not from_own_page(request):
        text = "With the pages' cookie only the pages themselves may change anything; other programs send a token."
        raise Problem(Kind.FOREIGN_SITE, text)


def from_own_page(request: Request) -> bool | None:
    """Say whether a page of this very origin sends the request, or one of another site; None if that is not known.

    A browser states it in Sec-Fetch-Site, which no page can forge; an older browser, or any over plain HTTP, only in
    Origin, and for a page's own GET in neither.
    """
    if site := request.headers.get("Sec-Fetch-Site"):
        return None if site == "none" else site == "same-origin"
    origin = request.headers.get("Origin")
    return None if origin is None else urlsplit(origin).netloc == request.host


# Browsers drop a cookie that is larger than 4096 bytes with its name and attributes.
MAX_COOKIE_BYTES = 3800
_PLAIN, _SECURE = "turno", "__Host-turno"
_NO_WORD = re.compile(r"\W+", re.ASCII)


def token_in(request: Request) -> str | None:
    """Return the token that this request's cookie carries, unchecked; None without a session."""
    return request.cookies.get(_name(request)) or None


def begin_session(request: Request, response: Response, token: str, principal: Principal, *, now: float) -> None:
    """Start a session that lasts as long as its token; `now` is in seconds since 1970.

    The response replaces any cookie of the browser, so a planted cookie does not survive.
    """
    response.set_cookie(
        _name(request),
        token,
        max_age=max(1, int(principal.expires_at - now)),
        path="/",
        httponly=True,
        # Not Strict: a link in a mail leads to the page and not to the sign-in. Changes have a separate check of their
        # origin.
        samesite="Lax",
        secure=over_https(request),
    )


def end_session(request: Request, response: Response) -> None:
    """Delete the cookie; the token itself stays valid until it expires or is revoked."""
    response.delete_cookie(_name(request), path="/", httponly=True, samesite="Lax", secure=over_https(request))


def form_token(token: str) -> str:
    """Return the CSRF token of a session's forms, derived from the session's token."""
    return hmac.new(token.encode(), b"turno form", "sha256").hexdigest()


def _name(request: Request) -> str:
    # A browser accepts __Host- from this very host alone, so a neighbouring subdomain cannot plant a session.
    name = _SECURE if over_https(request) else _PLAIN
    # Its path must then be /, so the name contains the prefix: it separates several mounted Turnos of a site.
    return name + _NO_WORD.sub("-", at(""))


class Visitor(NamedTuple):
    """The signed-in user of the pages, with the CSRF token of their forms."""

    principal: Principal
    form_token: str


def principal_of(request: Request) -> Principal:
    """Return the user of an API request.

    Raises Problem 401, 429 after many wrong tokens, or 403 for a change that another site has the browser ask for.
    """
    authorization, current = request.environ.get("HTTP_AUTHORIZATION"), services()
    if current.principal is not None:
        # Next to a cookie, a bearer header proves nothing: the application may have authenticated by the cookie.
        bearer = (authorization or "").lower().startswith("bearer ") and not request.cookies
        if request.method not in SAFE and not bearer:
            require_same_origin(request)
        return _signed_in(request)
    assert current.tokens is not None  # noqa: S101 - see `install`
    if authorization is not None or (cookie := token_in(request)) is None:
        return current.tokens.principal(authorization, request.remote_addr)
    if request.method not in SAFE:
        require_same_origin(request)
    return current.tokens.read(cookie, request.remote_addr)


def visitor_of(request: Request) -> Visitor:
    """Return the user of the pages; raises Problem 401 without a session."""
    if services().principal is not None:
        principal = _signed_in(request)
        # The application's session is unknown here; the token is a digest of its user, and no other user's page
        # contains it.
        key = services().settings.master_key.encode()
        return Visitor(principal, hmac.digest(key, f"turno form {principal.user}".encode(), "sha256").hex())
    token = token_in(request) or _nobody()
    return Visitor(tokens().read(token, request.remote_addr), form_token(token))


def tokens() -> TokenCheck:
    """Return the check of tokens, where no application supplies a `principal`."""
    current = services().tokens
    assert current is not None  # noqa: S101 - see `install`
    return current


def _signed_in(request: Request) -> Principal:
    ask = services().principal
    principal = ask(request) if ask else None
    return principal or _nobody()


def _nobody() -> NoReturn:
    raise Problem(Kind.NOT_AUTHENTICATED, "Nobody is signed in.", headers={"WWW-Authenticate": 'Cookie realm="turno"'})
