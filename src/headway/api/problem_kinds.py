"""Every kind of problem of the service: its status, its title, its meaning and a remedy."""

from __future__ import annotations

from headway.codec import Value


class Kind(Value):
    """A kind of problem; `meaning` and `remedy` make its page."""

    status: int
    title: str
    meaning: str
    remedy: str


KINDS: dict[str, Kind] = {
    # What is wrong with a request, whatever it asks for.
    "malformed": Kind(
        400,
        "The body is not JSON",
        "The body could not be read as JSON in UTF-8, or is nested too deep. `detail` says where it breaks.",
        "Send one JSON value, encoded as UTF-8, with lists and objects nested in at most 100 levels.",
    ),
    "doubled_header": Kind(
        400,
        "A header is given twice",
        "A header that must come once came twice, or a credential came in two ways. Nothing was done.",
        "Send it once. If you do, check the proxies between you and the service.",
    ),
    "not_http": Kind(
        400,
        "The request is not HTTP",
        "The bytes on the connection are not an HTTP request; the connection is closed.",
        "Use an HTTP client.",
    ),
    "unauthenticated": Kind(
        401,
        "Authentication required",
        "The request has no credential, or one that is unknown, expired or revoked. For safety the answer "
        "does not say which.",
        "Send `Authorization: Bearer <API key or token>` with a credential that is valid now.",
    ),
    "forbidden": Kind(
        403,
        "The credential lacks a scope",
        "The credential is valid, but lacks the scope named in `scope`.",
        "Use a credential with this scope, or with `admin`.",
    ),
    "not_found": Kind(
        404,
        "Not found",
        "No route has this path, or nothing of this name exists for the caller's tenant.",
        "Compare the path with the list of routes at `/docs`.",
    ),
    "method": Kind(
        405,
        "Method not allowed",
        "The path exists, but not for this method. The header `Allow` lists its methods.",
        "Use one of the methods in `Allow`.",
    ),
    "too_large": Kind(
        413,
        "The request is too large",
        "The body is larger than the service accepts, or a name in it is longer.",
        "Send less: store large data elsewhere and send a reference.",
    ),
    "media_type": Kind(
        415,
        "The content type is not JSON",
        "A body is accepted only with `Content-Type: application/json`.",
        "Send JSON, and say so in `Content-Type`.",
    ),
    "invalid": Kind(
        422,
        "The request is not valid",
        "A field is missing, unknown, or of another type: nothing is coerced. `errors` names the place and "
        "what is wrong there. A body may have more errors than the first one, which is named.",
        "Correct what `errors` names. The OpenAPI document at `/openapi.json` has the exact types.",
    ),
    "cursor": Kind(
        422,
        "The cursor is not valid",
        "A cursor is the `next` of an earlier page, or the id of an earlier event, of the same route.",
        "Use the cursor of an answer unchanged, or leave it out to start at the beginning.",
    ),
    "rate_limited": Kind(
        429,
        "Too many requests",
        "The credential has used up its rate. `Retry-After` says in how many seconds there is room again.",
        "Wait as long as `Retry-After` says, and send fewer requests at a time.",
    ),
    "head_too_large": Kind(
        431,
        "The headers are too large",
        "The path and the headers together have at most 64 KB; the connection is closed.",
        "Send fewer or smaller headers.",
    ),
    "internal": Kind(
        500,
        "Internal error",
        "An unexpected error. The answer does not describe it; the log of the service does.",
        "Repeat the request with the same `Idempotency-Key`. If it fails again, ask the operators of the "
        "service to look at its log.",
    ),
    "unavailable": Kind(
        503,
        "The service is unavailable",
        "The database cannot be reached, or the service is stopping. If `maybe_committed` is true, the "
        "change may have been made.",
        "Repeat the request with the same `Idempotency-Key`, after `Retry-After` seconds.",
    ),
    "unknown_version": Kind(
        503,
        "This node does not know the version of the chart",
        "The instance follows a version of its chart, `chart` and `version`, that the process which took the "
        "request does not have: during a rolling deployment other processes have it. Nothing was changed.",
        "Repeat the request after `Retry-After` seconds; another process may take it. `GET /ready` and "
        "`headway doctor` show which nodes know the version.",
    ),
    "schema": Kind(
        503,
        "The database schema does not match",
        "The database schema does not match this version of the service.",
        "Run `headway db up`.",
    ),
    "full": Kind(
        507,
        "The database's disk is full",
        "There is no space left; nothing was changed.",
        "Free some space. Reading still works.",
    ),
    # Repeats and versions.
    "key_reused": Kind(
        422,
        "The idempotency key was used for another request",
        "An `Idempotency-Key` belongs to one request: the same path, the same body, the same caller.",
        "Use a new key for each new request; repeat a request only with its own key.",
    ),
    "secret_told": Kind(
        409,
        "The request was carried out; its secret was shown once",
        "The answer to the first request with this `Idempotency-Key` held a secret, which is not kept "
        "anywhere. `key` is the id of the API key that was made or rotated.",
        "Use the first answer. If it is lost, rotate the key that was made, or make another link.",
    ),
    "version": Kind(
        412,
        "The instance has another version",
        "`If-Match` names another version than the instance has. `seq` is the version it has now.",
        "Read the instance again, decide again, and send with its new `ETag`.",
    ),
    # What is not there, or there already.
    "unknown_chart": Kind(
        404,
        "There is no such chart",
        "No chart of this name, or of this version, is registered.",
        "`GET /v1/charts` lists the charts.",
    ),
    "unknown_instance": Kind(
        404,
        "There is no such instance",
        "The caller's tenant has no instance of this id. What other tenants have is never told.",
        "`GET /v1/instances` lists the instances.",
    ),
    "unknown_ask": Kind(
        404,
        "There is no such ask",
        "The caller's tenant has no ask of this id.",
        "`GET /v1/asks` lists the asks that the caller may answer.",
    ),
    "unknown_key": Kind(
        404,
        "There is no such API key",
        "The caller's tenant has no API key of this id.",
        "`GET /v1/keys` lists the keys.",
    ),
    "unknown_work": Kind(
        404,
        "There is no such work",
        "The caller's tenant has no open work of this id.",
        "Claim work at `POST /v1/work/claim`.",
    ),
    "exists": Kind(
        409,
        "There is an instance of this id already",
        "The caller's tenant has an instance of this id, perhaps one that has ended.",
        "Choose another id, or leave it out to get one.",
    ),
    "link": Kind(
        403,
        "The link is not valid",
        "A link to answer an ask is forged, has run out, or was used for another answer.",
        "Ask for a new link.",
    ),
    "lease_lost": Kind(
        409,
        "The work is no longer with this worker",
        "The lease has run out or the attempt is over, so what a worker says about it does not count any "
        "more.",
        "Stop working on it, and claim again.",
    ),
    "result_refused": Kind(
        409,
        "The result was refused",
        "The chart does not take what the worker has brought, so the attempt has failed. `error` is the "
        "code that the "
        "chart has heard of.",
        "Compare the result with what the chart's transition takes. The chart says whether there is "
        "another attempt.",
    ),
    "not_possible": Kind(
        409,
        "Not possible",
        "The instance's chart does not have what was asked for, for example no event that cancels, or the "
        "service is not set up for it, for example has no secret for links. `detail` says what.",
        "Look at the chart: `GET /v1/charts/{name}`, or at the service's settings.",
    ),
    "drawing": Kind(
        503,
        "The chart cannot be drawn",
        "Graphviz is not installed where the service runs, or has failed.",
        "Install Graphviz there, or ask for the diagram as Mermaid, which needs nothing.",
    ),
    # Live events.
    "origin": Kind(
        403,
        "The origin is not allowed",
        "A browser says that the page which opens the WebSocket is of another site than the service.",
        "Open it from a page that the same site serves, for example behind the same proxy.",
    ),
    "silent": Kind(
        408,
        "No hello on the WebSocket",
        "The WebSocket sent no hello in time. The first message must be a hello.",
        'Send `{"type": "hello"}`, with what is wanted, as soon as the WebSocket is open.',
    ),
    "too_many_streams": Kind(
        429,
        "Too many streams are open",
        "Streams are live events and claims that wait. `limit` says of whom too many are open: of this "
        "credential (`key`), of its `tenant`, or of `all` callers of this process.",
        "Close streams that are not needed, and share one between several readers; or come back after "
        "`Retry-After` seconds. Those who run the service can set `key_streams`, `tenant_streams` and "
        "`streams`.",
    ),
    "too_many_handshakes": Kind(
        429,
        "The WebSocket was closed before its hello",
        "Too many WebSockets are open that have not sent a hello, from this `address` or from `all` (`limit` "
        "says which), so the one that has waited longest is closed.",
        "Send the hello as soon as the WebSocket is open, and come back after `Retry-After` seconds.",
    ),
    "slow": Kind(
        429,
        "The reader is too slow",
        "More events came than the reader has taken from its connection. `after` is the id of the last one "
        "it was sent.",
        "Connect again with `after`: nothing is missed. Take events from the connection faster than they "
        "come.",
    ),
    # An event that the chart refused; nothing was changed.
    "illegal": Kind(
        409,
        "The event is not possible in this state",
        "The chart knows the event, but not in the states the instance is in. `states` and `allowed` say "
        "where it "
        "stands and what it would take now.",
        "Send one of the events in `allowed`, or wait until the instance has moved.",
    ),
    "already": Kind(
        409,
        "The instance is in that state already",
        "The event leads to the current state of the instance, so it was probably sent before.",
        "Nothing needs to be done. Send an `Idempotency-Key` to get the first answer again.",
    ),
    "terminal": Kind(
        409,
        "The instance has ended",
        "The instance is in a final state, which no event leaves.",
        "Create a new instance.",
    ),
    "unknown_event": Kind(
        409,
        "The chart has no such event",
        "No transition of the chart waits for this event in any state. `detail` names a similar one, if "
        "there is one.",
        "Correct the name; `GET /v1/charts/{name}` lists the events.",
    ),
    "reserved": Kind(
        409,
        "The event is the engine's own",
        "Timers, work and answers have events that only the engine sends.",
        "Use the route for what is meant: asks have `/v1/asks`, work has `/v1/work`.",
    ),
    "actor": Kind(
        403,
        "The caller lacks the role",
        "The transition is for other roles, or not for agents. `allowed` names the roles.",
        "Somebody with one of the roles must send it.",
    ),
    "owner": Kind(
        403,
        "Only for oneself",
        "The credential reaches only what belongs to its actor, and the instance would be another's.",
        "Create it for the actor of the credential, or use a credential without the scope `own`.",
    ),
    "duty": Kind(
        403,
        "Separation of duties",
        "The person who did one part may not do the other.",
        "Another person must send it.",
    ),
    "payload": Kind(
        422,
        "The event's data is not valid",
        "The data does not match the model of the transition.",
        "Correct what `detail` names.",
    ),
    "context": Kind(
        422,
        "The context is not valid",
        "The context does not match the chart's model.",
        "Correct what `detail` names.",
    ),
    "guard": Kind(
        409,
        "A guard refused the event",
        "A transition waits for the event, but its guard refuses it. `objections` has the reasons.",
        "Meet the condition, then send the event again.",
    ),
    "claimed": Kind(
        409,
        "Somebody else has claimed the ask",
        "Only the person who claimed the ask, or to whom it was delegated, may answer it.",
        "Wait for the claim to run out, or let the person answer.",
    ),
    "late": Kind(
        409,
        "The ask is no longer open",
        "The ask was answered, its deadline has passed, or the instance has moved on without an answer. "
        "`detail` says which question is over.",
        "Look where the instance stands now.",
    ),
    "stale": Kind(
        409,
        "The event refers to something that is over",
        "The timer, ask or work that the event answers is no longer open, or another attempt is under way.",
        "Look where the instance stands now.",
    ),
    "early": Kind(
        409,
        "The timer is not due yet",
        "The timer that the event speaks of is not due yet.",
        "Send it when it is due.",
    ),
    "depth": Kind(
        409,
        "Children are nested too deep",
        "An instance may create children, and they theirs, to a limited depth.",
        "Look at the chart: it may create itself.",
    ),
    "children": Kind(
        409,
        "There are too many children",
        "An instance may have a limited number of children.",
        "Spread the work over several parents.",
    ),
    "landing": Kind(
        409,
        "The computed state cannot be reached",
        "The chart computes its state from its context, and no state, or one that may not follow, fits it.",
        "Look at the conditions of the chart's states.",
    ),
    "fault": Kind(
        500,
        "A function of the chart has failed",
        "A guard or an action of the chart raised an error; nothing was changed.",
        "Show `detail` to the author of the chart.",
    ),
    "runaway": Kind(
        500,
        "The chart never settles",
        "Transitions without an event followed one another beyond the limit; nothing was changed.",
        "Show `detail` to the author of the chart.",
    ),
}
