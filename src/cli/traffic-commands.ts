const storeOption = {
  type: "string",
  short: "s",
  value: "STORE",
  text: "Recordings to read: a SQLite file, a `postgres://` URL or a capture file. Default: where `headgate run` records in this folder, otherwise its file in your data folder.",
} as const;

const jsonOption = { type: "boolean", text: "Print JSON; lists as one object per line." } as const;

const filterOption = {
  type: "string",
  value: "FILTER",
  text: "Only matching exchanges; see `headgate traffic`.",
} as const;

const legOption = {
  type: "string",
  value: "LEG",
  text: "`client`: messages as clients saw them; `upstream`: as the server behind the gateway sent them. Default: `client`.",
} as const;

/** The commands that read recordings. */
export const trafficCommands = {
  traffic: {
    usage: [
      "traffic [FILTER]",
      "traffic follow [FILTER]",
      "traffic conversation [FILTER]",
      "traffic show ID",
      "traffic stats [FILTER]",
      "traffic export FILE [FILTER]",
      "traffic import FILE",
      "traffic prune --before TIME | --max-size SIZE [FILTER]",
    ],
    summary: "list, follow, show, export or prune recorded traffic",
    about: [
      "Lists recorded exchanges, newest first; `follow` prints them as they happen. `conversation` describes what clients did: what they asked for, with which arguments, what the server asked back, and what it answered. `show` prints one exchange and everything related to it as a conversation: requests, policy decisions and responses on both sides of the gateway. The beginning of an ID is enough to name it.",
      "All terms of a FILTER must match, for example `tool:delete_* status:err since:1h`. `|` means or, `!` means not, parentheses group. Fields: method, tool, prompt, uri, target, principal, client, session, route, upstream, status, decision, rule, diagnostic, code, gateway, dur, server, size, since, before, dir, kind, transport, revision, id, op, rpc, trace, capture, request, answer and text. In names `*` matches any text, and `/…/` is a regular expression. Flags: `error`, `open`, `denied`, `modified`, `redacted` and `truncated`. Any other word is searched for in names and bodies. The mitmproxy operators ~q, ~s, ~e, ~m, ~b, ~bq and ~bs work too.",
      "`export` writes a capture file (NDJSON) for `replay`, `diff`, `policy replay` and `import`, compressed if its name ends in `.gz`; a name ending in `.har` produces a HAR file. `-` writes to standard output.",
    ],
    options: {
      store: storeOption,
      config: {
        type: "string",
        short: "c",
        value: "FILE",
        text: "Configuration file that says where the recordings are, instead of `--store`.",
      },
      limit: { type: "string", short: "n", value: "COUNT", text: "Number of exchanges to list. Default: 50." },
      cursor: { type: "string", value: "CURSOR", text: "Continue a list at the cursor that it ended with." },
      oldest: { type: "boolean", text: "List the oldest first." },
      follow: { type: "boolean", short: "f", text: "Same as `traffic follow`." },
      full: { type: "boolean", text: "For `show`: do not truncate long bodies." },
      operations: {
        type: "boolean",
        text: "For `export`: whole operations if any of their exchanges matches the filter.",
      },
      before: {
        type: "string",
        value: "TIME",
        text: "For `prune`: remove exchanges that began earlier, such as `7d` ago.",
      },
      "max-size": {
        type: "string",
        value: "SIZE",
        text: "For `prune`: remove the oldest exchanges until the store is at most this large, such as `2GB`.",
      },
      json: jsonOption,
    },
    examples: [
      { text: "Watch traffic live", command: "headgate traffic follow" },
      { text: "Failures of the last hour", command: "headgate traffic status:err since:1h" },
      { text: "What one agent deleted", command: "headgate traffic principal:ann 'tool:delete_*'" },
      { text: "Slow calls", command: "headgate traffic 'dur:>2s' -n 20" },
      { text: "Denied calls, and the rule that denied them", command: "headgate traffic denied" },
      { text: "What an agent did, call by call", command: "headgate traffic conversation principal:ann since:1h" },
      { text: "One exchange from start to end", command: "headgate traffic show 3fa9c1" },
      { text: "A capture file for a test or a colleague", command: "headgate traffic export today.ndjson since:9:00" },
      { text: "Latency percentiles by tool", command: "headgate traffic stats method:tools/call since:1d" },
    ],
    exits: ["ok", "failed", "usage"],
    exitTexts: {
      failed: "No exchange has this ID.",
      usage: "Invalid arguments or filter, or the recordings cannot be read or written.",
    },
  },
  replay: {
    usage: [
      "replay CAPTURE [--port PORT] [--filter FILTER] [--leg LEG] [--fail-unused]",
      "replay CAPTURE --stdio",
      "replay CAPTURE --against URL [--header NAME:VALUE]… [--ignore POINTER]… [--allow-writes]",
      "replay CAPTURE [--allow-writes] -- COMMAND [ARGS…]",
    ],
    summary: "serve a recording as a mock server, or send it to a server and compare",
    about: [
      "By default it serves the recording: a mock server that answers as the recorded one did. Requests match by method and parameters, ignoring key order, tokens and trace context. Equal requests get the recorded responses in order; after the last one, it is repeated. Responses carry the id and progress token of the new request. A request that was not recorded gets error 4040 with the closest recorded ones, and the exit code is 1.",
      "With `--against` or a command it sends the recorded requests to that server one by one and reports different responses. Tools without `readOnlyHint: true` are skipped unless you pass `--allow-writes`, and so are requests with redacted values.",
      "CAPTURE is a capture file written by `headgate traffic export`, or a SQLite file of recordings.",
    ],
    options: {
      port: { type: "string", short: "p", value: "PORT", text: "Loopback port to listen on. Default: any free port." },
      stdio: { type: "boolean", text: "Serve one client over standard input and output instead." },
      filter: { ...filterOption, text: "Only matching exchanges, as whole operations; see `headgate traffic`." },
      leg: legOption,
      "fail-unused": { type: "boolean", text: "Also fail if a recorded request was never received." },
      against: { type: "string", value: "URL", text: "Send the recorded requests to this server." },
      header: {
        type: "string",
        short: "H",
        multiple: true,
        value: "NAME:VALUE",
        text: "With --against: header to send with every request. Repeatable.",
      },
      ignore: {
        type: "string",
        multiple: true,
        value: "POINTER",
        text: "With --against: JSON Pointer of a response value to ignore, such as `/result/content/*/text`. Repeatable.",
      },
      "allow-writes": { type: "boolean", text: "With --against: also call tools that may change something." },
      json: jsonOption,
    },
    examples: [
      { text: "Mock yesterday's server", command: "headgate replay yesterday.ndjson --port 9000" },
      { text: "For a client that starts its servers", command: "headgate replay yesterday.ndjson --stdio" },
      {
        text: "Does the new version still respond the same?",
        command: "headgate replay yesterday.ndjson --against http://127.0.0.1:3000/mcp",
      },
    ],
    exits: ["ok", "failed", "usage", "unauthorized", "unreachable"],
    exitTexts: {
      ok: "Every request was recorded, or every response is the same.",
      failed: "A request was not recorded, or a response differs.",
      usage: "Invalid arguments, or the capture cannot be read.",
    },
  },
  diff: {
    usage: ["diff A B [--filter FILTER] [--leg LEG] [--ignore POINTER]… [--json]"],
    summary: "compare two recordings",
    about: [
      "Compares two recordings call by call: calls in only one of them, different parameters or responses, a different order, and latencies that differ by more than a fifth. Ids, tokens and metadata are ignored. Redacted values cannot be compared and are counted.",
    ],
    options: {
      filter: filterOption,
      leg: legOption,
      ignore: {
        type: "string",
        multiple: true,
        value: "POINTER",
        text: "JSON Pointer of a response value to ignore, such as `/result/content/*/text`. Repeatable.",
      },
      json: jsonOption,
    },
    examples: [{ text: "Before and after an upgrade", command: "headgate diff before.ndjson after.ndjson" }],
    exits: ["ok", "failed", "usage"],
    exitTexts: {
      ok: "The recordings are the same.",
      failed: "The recordings differ.",
      usage: "Invalid arguments, or a recording cannot be read.",
    },
  },
  policy: {
    usage: [
      "policy test FILE",
      "policy explain METHOD [PARAMS] [--config FILE] [--route NAME] [--principal WHO] [--answer JSON]",
      "policy replay CAPTURE [--config FILE] [--route NAME] [--principals FILE] [--strict] [--json]",
    ],
    summary: "test, explain or replay policy rules offline",
    about: [
      "`test` runs the cases of a file against the rules of a configuration. A case has a message, a principal and the expected decision; the file names its configuration.",
      "`explain` evaluates one message and shows the outcome of every rule, the values that were read, and what the agent would be told. PARAMS is the `params` of the message as JSON. With `--answer`, the rules for results are evaluated instead.",
      "`replay` runs recorded traffic through the rules of a configuration, without any server, and reports what would change: newly denied or allowed calls, list entries hidden or shown, changed arguments and results, and what cannot be decided because the recording lacks a value that a rule reads. CAPTURE is a capture file or a SQLite file of recordings.",
    ],
    options: {
      config: {
        type: "string",
        short: "c",
        value: "FILE",
        text: "For `explain` and `replay`: the configuration file. Default: the `headgate.yaml` of this folder.",
      },
      route: {
        type: "string",
        value: "NAME",
        text: "For `explain` and `replay`: the route whose rules apply. `replay` uses the recorded route by default.",
      },
      principals: {
        type: "string",
        value: "FILE",
        text: "For `replay`: YAML or JSON file with `kind`, `scopes` and `claims` of principals by id, which recordings do not contain.",
      },
      strict: { type: "boolean", text: "For `replay`: also fail if something cannot be decided." },
      json: { type: "boolean", text: "For `replay`: print the report as JSON." },
      principal: {
        type: "string",
        value: "WHO",
        text: "For `explain`: the caller, by short name, id, or JSON with any of `id`, `name`, `kind`, `scopes` and `claims`. Default: anonymous.",
      },
      answer: {
        type: "string",
        value: "JSON",
        text: "For `explain`: the response to the message, an object with `result` or `error`.",
      },
    },
    examples: [
      { text: "Before a change goes live, or in CI", command: "headgate policy test policy.test.yaml" },
      {
        text: "Why is deleting files denied?",
        command: `headgate policy explain tools/call '{"name":"delete_file"}'`,
      },
      {
        text: "The same for one caller",
        command: `headgate policy explain tools/call '{"name":"delete_file"}' --principal ann`,
      },
      {
        text: "The same with another token",
        command: `headgate policy explain tools/call '{"name":"delete_file"}' --principal '{"name":"ann","scopes":["files:write"]}'`,
      },
      {
        text: "What would a new policy have done to yesterday's traffic?",
        command: "headgate policy replay yesterday.ndjson -c new.yaml",
      },
    ],
    exits: ["ok", "failed", "usage"],
    exitTexts: {
      ok: "Every case passed, the message was explained, or nothing would change.",
      failed: "A case failed, or something would change.",
      usage: "Invalid arguments, configuration, case file or capture.",
    },
  },
  drift: {
    usage: [
      "drift [--store STORE] [--lock FILE] [--route NAME] [--json]",
      "drift approve [NAME]… [--store STORE] [--lock FILE] [--route NAME]",
    ],
    summary: "compare tools, prompts and resources with their approved definitions",
    about: [
      "Compares the definitions that servers last returned, as recorded, with the approved ones, field by field: names, descriptions, schemas, annotations, instructions. `approve` accepts the current definitions, all of them or the given names, and writes the lock file. Keep the lock file in version control next to the configuration.",
      "With `drift: { lock: FILE, mode: warn }` in its configuration, the gateway compares definitions at run time; `mode: hide` also removes unapproved definitions from lists, and `mode: block` also refuses calls to them.",
    ],
    options: {
      store: storeOption,
      lock: { type: "string", value: "FILE", text: "Lock file. Default: `headgate.lock.json`." },
      route: { type: "string", value: "NAME", text: "Only this route." },
      json: jsonOption,
    },
    examples: [
      { text: "Approve everything for the first time", command: "headgate drift approve" },
      { text: "In CI, or every morning", command: "headgate drift" },
      { text: "Approve one tool after reviewing a change", command: "headgate drift approve weigh --route harbor" },
    ],
    exits: ["ok", "failed", "usage"],
    exitTexts: {
      ok: "Every definition is approved.",
      failed: "A definition is not approved, or the given names match nothing.",
      usage: "Invalid arguments, or the recordings or the lock file cannot be read.",
    },
  },
} as const;
