/** What to do about answers of Redis, by their first word. */
const redisAdvice: Readonly<Record<string, string>> = {
  MOVED:
    "a server of a Redis Cluster: use one that is not, or keep all keys at one node with a hash tag in `state.redis.prefix`",
  ASK: "a server of a Redis Cluster that moves its keys: wait until they have moved, and name their node in `state.redis.url`",
  CROSSSLOT: "a server of a Redis Cluster: keep all keys at one node with a hash tag in `state.redis.prefix`",
  CLUSTERDOWN:
    "a server of a Redis Cluster that is not complete: start its nodes, or use a server that is not of a cluster",
  LOADING: "Redis reads its file after a start: wait",
  READONLY: "a replica: name the primary in `state.redis.url`, or the sentinels in `state.redis.sentinel`",
  MASTERDOWN:
    "a replica without its primary: name the primary in `state.redis.url`, or the sentinels in `state.redis.sentinel`",
  OOM: "Redis is out of memory: raise its `maxmemory`",
  NOAUTH: "set user and password in `state.redis.url`",
  WRONGPASS: "check user and password in `state.redis.url`",
  NOPERM: "let the Redis user run all commands on the keys and the channel that begin with `state.redis.prefix`",
  MISCONF: 'Redis cannot save its data: see its log; it needs no disk for this, so `save ""` is enough',
  NOREPLICAS: "Redis waits for its replicas: start them, or lower its `min-replicas-to-write`",
  BUSY: "a script of another program keeps Redis busy: end it with SCRIPT KILL",
};

/** The same of PostgreSQL, by SQLSTATE (PostgreSQL documentation, appendix A). */
const postgresAdvice: Readonly<Record<string, string>> = {
  "25006": "a standby or a read-only database: name the primary in `state.postgres`",
  "28000": "check the user in `state.postgres`, and whether it may log in",
  "28P01": "check the password in `state.postgres`",
  "3D000": "create the database that `state.postgres` names",
  "42501": "let the user of `state.postgres` create tables, and use those that begin with `headgate_`",
  "53100": "PostgreSQL has no disk space left: free some",
  "53200": "PostgreSQL is out of memory",
  "53300": "raise `max_connections` of PostgreSQL or the connection limit of the user: each gateway needs four",
  "57014": "a query was waiting for a lock or a busy server: see `pg_stat_activity`",
  "57P01": "PostgreSQL ended the connection; it is opened again",
  "57P03": "PostgreSQL is starting or stopping: wait",
};

/** What a store's error says, and what to do about it where that is known. */
export interface StoreProblem {
  readonly reason: string;
  readonly advice: string | undefined;
}

/** Reads the error of a store, or its text. */
export function storeProblem(error: unknown): StoreProblem {
  if (error instanceof AggregateError) {
    const problems = error.errors.map(storeProblem);
    const reason = problems.map((problem) => problem.reason).join("; ");
    return { reason, advice: problems.find(({ advice }) => advice !== undefined)?.advice };
  }
  const reason = error instanceof Error ? error.message : String(error);
  const { code } = Object(error) as { readonly code?: unknown };
  const [first = ""] = reason.split(" ", 1);
  const table = typeof code === "string" && Object.hasOwn(postgresAdvice, code) ? postgresAdvice : redisAdvice;
  const key = table === postgresAdvice ? String(code) : first;
  return { reason, advice: Object.hasOwn(table, key) ? table[key] : undefined };
}

/** Both, for an error or a log line. */
export function problemText({ reason, advice }: StoreProblem): string {
  return advice === undefined ? reason : `${reason} (${advice})`;
}
