"""Every kind of problem the service tells: its status, its title, what it means and what helps."""

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
        "A header that decides who calls or what is done came twice, or a credential came in two ways. "
        "Nothing was done.",
        "Send it once. If it is sent once, look at what stands between you and the service.",
    ),
    "not_http": Kind(
        400,
        "This is not HTTP",
        "What came over the connection cannot be read as a request; the connection is closed.",
        "Use an HTTP client.",
    ),
    "unauthenticated": Kind(
        401,
        "Who are you?",
        "The request carries no credential, or one that is unknown, expired or revoked. Which of them is "
        "not told.",
        "Send `Authorization: Bearer <API key or token>` with a credential that is valid now.",
    ),
    "forbidden": Kind(
        403,
        "This credential may not do that",
        "The credential is valid, and lacks the scope that `scope` names.",
        "Use a credential with this scope, or with `admin`.",
    ),
    "not_found": Kind(
        404,
        "There is nothing here",
        "No route has this path, or nothing of this name exists for the caller's tenant.",
        "Compare the path with the list of routes at `/docs`.",
    ),
    "method": Kind(
        405,
        "The path does not take this method",
        "There is something at this path, but not for this method. The header `Allow` lists the methods it "
        "takes.",
        "Use one of the methods in `Allow`.",
    ),
    "too_large": Kind(
        413,
        "That is too large",
        "The body is larger than the service takes, or a name in it is longer.",
        "Send less: keep large things elsewhere and send a reference.",
    ),
    "media_type": Kind(
        415,
        "The body is not of type JSON",
        "A body is taken only with `Content-Type: application/json`.",
        "Send JSON, and say so in `Content-Type`.",
    ),
    "invalid": Kind(
        422,
        "The request is not what this route takes",
        "A field is missing, unknown, or of another type: nothing is coerced. `errors` lists each place "
        "and what is "
        "wrong there.",
        "Correct the places that `errors` names. The OpenAPI document at `/openapi.json` has the exact "
        "types.",
    ),
    "cursor": Kind(
        422,
        "This is not a cursor of this route",
        "A cursor is the `next` of an earlier page, or the id of an earlier event, of the same route.",
        "Take the cursor from an answer as it stands, or leave it out to begin at the beginning.",
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
        "The service has failed",
        "Something broke that should not. Nothing is told about it here; the service's log has it.",
        "Repeat the request with the same `Idempotency-Key`. If it goes on, show the log to those who run "
        "the service.",
    ),
    "unavailable": Kind(
        503,
        "The service cannot answer now",
        "The database cannot be reached, or the service is about to stop. With `maybe_committed` true, a "
        "change that "
        "was asked for may have been made.",
        "Repeat the request with the same `Idempotency-Key`, after `Retry-After` seconds.",
    ),
    "unknown_version": Kind(
        503,
        "This node does not know the version of the chart",
        "The instance follows a version of its chart, `chart` and `version`, that the process which took the "
        "request does not have: during a rolling deployment other processes have it. Nothing was changed.",
        "Repeat the request after `Retry-After` seconds; another process may take it. `GET /ready` and "
        "`headway doctor` tell which nodes know the version.",
    ),
    "schema": Kind(
        503,
        "The database is of another version",
        "The tables are not those that this version of the service needs.",
        "Run `headway db upgrade`.",
    ),
    "full": Kind(
        507,
        "The database's disk is full",
        "There is no room left; nothing was changed.",
        "Make room. Reading goes on meanwhile.",
    ),
    # Repeats and versions.
    "key_reused": Kind(
        422,
        "The key was used for another request",
        "An `Idempotency-Key` belongs to one request: the same path, the same body, the same caller.",
        "Make a new key for each new request; repeat a request with its own key only.",
    ),
    "secret_told": Kind(
        409,
        "The request was carried out, and its answer is told only once",
        "The answer to the first request with this `Idempotency-Key` held a secret, which is not kept "
        "anywhere. `key` is the id of the API key that was made or rotated.",
        "Use the first answer. If it is lost, rotate the key that was made, or make another link.",
    ),
    "version": Kind(
        412,
        "The instance has moved on",
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
        "The result was not taken",
        "The chart does not take what the worker has brought, so the attempt has failed. `error` is the "
        "code that the "
        "chart has heard of.",
        "Compare the result with what the chart's transition takes. The chart says whether there is "
        "another attempt.",
    ),
    "not_possible": Kind(
        409,
        "That is not possible here",
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
        "Pages of other sites may not connect",
        "A browser says that the page which opens the WebSocket is of another site than the service.",
        "Open it from a page of the service, or let those who run the service name the page's origin in "
        "its settings.",
    ),
    "silent": Kind(
        408,
        "There was no hello",
        "A WebSocket has said nothing for too long: it says first what it wants.",
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
        "The instance is there already",
        "The event leads to where the instance stands, so it has probably been sent before.",
        "Nothing is to be done. Send an `Idempotency-Key` to get the first answer again.",
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
        "The caller has none of the roles",
        "The transition is for other roles, or not for agents. `allowed` names the roles.",
        "Let somebody with one of the roles send it.",
    ),
    "duty": Kind(
        403,
        "Somebody else must do that",
        "Duties are separated: who has done one part may not do the other.",
        "Let another person send it.",
    ),
    "payload": Kind(
        422,
        "The event's data is not what it takes",
        "The data does not fit the model that the transition takes.",
        "Correct the places that `detail` names.",
    ),
    "context": Kind(
        422,
        "The context is not what the chart takes",
        "The context does not fit the chart's model.",
        "Correct the places that `detail` names.",
    ),
    "guard": Kind(
        409,
        "A condition does not hold",
        "A transition waits for the event, but its condition says no. `objections` holds the reasons.",
        "Bring about what the condition asks for, then send again.",
    ),
    "claimed": Kind(
        409,
        "Somebody else has taken the ask on",
        "An ask that is claimed or delegated is answered by that person alone.",
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
        "What the event refers to is over",
        "The timer, ask or work that the event answers is no longer open, or another attempt is under way.",
        "Look where the instance stands now.",
    ),
    "early": Kind(
        409,
        "It is too early",
        "The timer that the event speaks of is not due yet.",
        "Send it when it is due.",
    ),
    "depth": Kind(
        409,
        "Children of children go too deep",
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
        "The chart does not come to rest",
        "Transitions without an event followed one another beyond the limit; nothing was changed.",
        "Show `detail` to the author of the chart.",
    ),
}
