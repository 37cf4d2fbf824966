/** One fault of the environment, what is promised under it, and the tests that bring it about and look. */
export interface Fault {
  /** Its class and number: A access and policy, C clients, G the gateway process, K kits, P PostgreSQL, R recording, S children, U upstreams. */
  readonly id: string;
  readonly fault: string;
  readonly promise: string;
  /** A suite of `test/e2e/`, without its ending. */
  readonly suite: string;
  /** Part of the full titles of the tests. */
  readonly test: string;
}

const answered = "a running call is answered within the grace";
const refusedOrRecorded = "no call is answered that is not recorded";
const served = "the calls of others succeed";

const row = (id: string, fault: string, promise: string, suite: string, test: string): Fault => ({
  id,
  fault,
  promise,
  suite,
  test,
});

const fairness = (id: string, resource: string): Fault =>
  row(id, `one caller takes ten times its share: ${resource}`, served, "fairness", `leaves to others: ${resource}`);

/** Every fault that is tried. */
export const faults: readonly Fault[] = [
  row(
    "A02",
    "SIGTERM while a decision is pending",
    answered,
    "shutdown-calls",
    "although it still waits for a decision",
  ),
  row(
    "A05",
    "audit file cannot be written, refuse",
    "nothing passes unaudited",
    "audit",
    "lets nothing pass while it cannot be written",
  ),
  row("A06", "audit file deleted", "goes on in a new file", "audit", "goes on in a new file when its file is deleted"),
  row(
    "C01",
    "clients send rubbish",
    "answered or cut off; others do not notice",
    "under-fire",
    "clients that send rubbish",
  ),
  row(
    "C10",
    "bodies that never end, or a byte at a time",
    "408 in time; no longer counted",
    "limits",
    "after `timeouts.body`",
  ),
  row(
    "C13",
    "client never answers a question",
    "the server is told",
    "upstream-edges",
    "a question that its client never answers",
  ),
  row(
    "C14",
    "server asks before the client listens",
    "nothing is lost",
    "early-messages",
    "a message of the server before the client listens",
  ),
  row(
    "C15",
    "session ends during a call",
    "the call is answered",
    "early-messages",
    "a session that ends during a call",
  ),
  fairness("C20", "requests at once"),
  fairness("C21", "bodies that are being received"),
  fairness("C22", "open requests of a route"),
  fairness("C23", "questions that nobody answers"),
  fairness("C24", "subscriptions"),
  fairness("C25", "calls that wait for their client"),
  fairness("C26", "sessions"),
  fairness("C27", "HTTP+SSE connections"),
  fairness("C28", "processes, by made-up capabilities"),
  fairness("C29", "processes, by sessions"),
  row(
    "G02",
    "SIGTERM, body on its way or answer to be recorded",
    answered,
    "shutdown-calls",
    "is answered when its body is still on its way",
  ),
  row(
    "G06",
    "SIGTERM with `readinessDelay`",
    "readiness fails before the listener closes",
    "shutdown-calls",
    "readiness fails first",
  ),
  row("G07", "a second signal", "ends at once", "shutdown-calls", "a second signal"),
  row(
    "G14",
    "nobody reads the log",
    "bounded memory; does not delay the end",
    "shutdown-logs",
    "a log that nobody reads",
  ),
  row(
    "G21",
    "grace over, modern clients",
    "an error with the id",
    "shutdown-calls",
    "as JSON and on a stream, for modern clients",
  ),
  row(
    "G22",
    "grace over, legacy session and HTTP+SSE",
    "an error with the id",
    "shutdown-calls",
    "in a legacy session and over HTTP+SSE",
  ),
  row("G23", "grace over, stdio", "an error with the id", "shutdown-calls", "over stdio"),
  row(
    "G24",
    "gateway killed and started again",
    "says what it lost; serves everything new",
    "under-fire",
    "a gateway that is killed and started again",
  ),
  row("G25", "reload under load", "no call and no session is lost", "under-fire", "a reload under load"),
  row(
    "K02",
    "backends of PostgreSQL terminated",
    "the kit goes on and answers",
    "server-kit-core-store-faults",
    "outlives the termination of backends",
  ),
  row(
    "K04",
    "PostgreSQL hangs",
    "calls fail in time; health says so",
    "server-kit-core-store-faults",
    "fails calls in time",
  ),
  row(
    "K06",
    "SIGTERM while PostgreSQL hangs",
    "the kit ends",
    "server-kit-core-store-faults",
    "does not keep the process from ending",
  ),
  row(
    "K09",
    "clients stop reading",
    "cut off before they fill the memory",
    "server-kit-http-faults",
    "are cut off before they fill the memory",
  ),
  row(
    "K10",
    "clients stop reading, then shutdown",
    "the end is not held up",
    "server-kit-http-faults",
    "do not hold up the shutdown",
  ),
  row(
    "K11",
    "store fails in the middle of a call",
    "no internals; health says so",
    "server-kit-http-faults",
    "a store that fails in the middle of a call",
  ),
  row(
    "P02",
    "PostgreSQL away for a while",
    "written to again when it is back",
    "recorder-postgres",
    "that is gone for a while",
  ),
  row(
    "P04",
    "PostgreSQL hangs",
    "refused in time; the end is not held up",
    "recorder-postgres",
    "that hangs is given up",
  ),
  row("P08", "PostgreSQL far away", "few round trips for many exchanges", "recorder-postgres", "in a few round trips"),
  row(
    "R01",
    "disk full",
    "refused, and goes on when there is room",
    "recorder-writer",
    "says no while its disk is full",
  ),
  row(
    "R06",
    "file deleted or moved",
    "later calls are in a new file",
    "recorder-faults",
    "goes on in a new one, and has every later call",
  ),
  row(
    "R07",
    "file deleted or moved, record or refuse",
    refusedOrRecorded,
    "recorder-faults",
    "refuses or records every call",
  ),
  row(
    "R08",
    "file deleted or moved",
    "what it held counts as lost",
    "recorder-faults",
    "counts as lost what can no longer be found",
  ),
  row(
    "R09",
    "file deleted while nothing is written",
    "noticed",
    "recorder-faults",
    "deleted while nothing is written is noticed",
  ),
  row(
    "R12",
    "a reader holds the file",
    "the write-ahead log is bounded",
    "recorder-faults",
    "is bounded behind a reader",
  ),
  row(
    "R15",
    "much traffic",
    "the size bound holds while running",
    "recorder-faults",
    "is bounded while the gateway runs",
  ),
  row(
    "R18",
    "SIGTERM while nothing can be written",
    "log and exit code say what is lost",
    "recorder-faults",
    "says what is lost, in the log and by its exit code",
  ),
  row("R19", "kill -9 under load", "the file stays sound", "recorder-crash", "a gateway that is killed under load"),
  row(
    "R20",
    "kill -9, record or refuse",
    "a request is on disk before it is sent",
    "recorder-faults",
    "has a request on disk before it is sent upstream",
  ),
  row("R21", "cancelled calls with large arguments", "the size bound holds", "recorder-faults", "stand as cancelled"),
  row(
    "R22",
    "server asks, record or refuse",
    "question and answer are on disk first",
    "recorder-faults",
    "has a question on disk",
  ),
  row("S10", "kill -9 while children start", "no child is left", "stdio-children-killed", "leaves no child behind"),
  row(
    "S18",
    "gateway ends by SIGKILL or SIGTERM",
    "its children end",
    "stdio-children-killed",
    "takes it along when it ends by",
  ),
  row(
    "S19",
    "child ignores SIGTERM and its input",
    "it ends with the gateway",
    "stdio-children-killed",
    "ignores SIGTERM and the end of its input",
  ),
  row(
    "S20",
    "child dies in the middle of a call",
    "its session ends, and no other",
    "upstream-faults",
    "a process that dies in the middle of a call",
  ),
  row(
    "U01",
    "upstream cannot be reached",
    "an error in both eras; no session is left",
    "upstream-faults",
    "that cannot be reached",
  ),
  row("U02", "upstream dead", "other routes go on", "upstream-faults", "does not affect another route"),
  row(
    "U03",
    "upstream forgets sessions",
    "one new session, and the call succeeds",
    "upstream-faults",
    "that has forgotten the session",
  ),
  row(
    "U04",
    "HTTP+SSE stream breaks in a call",
    "an error; the next session works",
    "upstream-faults",
    "whose stream breaks in the middle of a call",
  ),
  row("U24", "unasked-for 100 Continue", "skipped", "upstream-edges", "are skipped"),
  row(
    "U34",
    "upstream says 429 or 503",
    "status and Retry-After reach the client",
    "upstream-edges",
    "an upstream that is busy",
  ),
  row(
    "U39",
    "60 calls at 4 connections",
    "`connections` bounds them",
    "upstream-edges",
    "bounds the connections for calls",
  ),
];
