const storeOption = {
  type: "string",
  short: "s",
  value: "PLACE",
  text: "Where the recordings are: a file of a gateway, a `postgres://` URL, or a capture file; the file that `headgate run` writes unless given.",
} as const;

const jsonOption = { type: "boolean", text: "Prints JSON, one object a line where there are many." } as const;

/** The commands that look at recordings, and those that work with captures. */
export const recordingCommands = {
  traffic: {
    usage: [
      "traffic [FILTER]",
      "traffic follow [FILTER]",
      "traffic show ID",
      "traffic stats [FILTER]",
      "traffic export FILE [FILTER]",
      "traffic import FILE",
      "traffic prune --before TIME | --max-size SIZE [FILTER]",
    ],
    summary: "shows what went through the gateway, and why it was allowed",
    about: [
      "Lists what was recorded, the newest first; `follow` shows it happens. `show` tells one exchange with everything that belongs to it as a conversation: what came, what was decided, what went on, what came back. The beginning of an id will do.",
      "A FILTER has terms that must all hold, such as `tool:delete_* status:err since:1h`. `|` is or, `!` is not, parentheses group. There are method, tool, prompt, uri, target, principal, session, route, status, decision, rule, code, gateway, dur, server, size, since, before, dir, kind, transport, revision, id, op, rpc, trace, capture, request, answer and text; `*` stands for any text in names, and `/…/` is a pattern. `error`, `open`, `denied`, `modified`, `redacted` and `truncated` stand alone, and any other word is looked for in names and bodies. The letters of mitmproxy work too: ~q, ~s, ~e, ~m, ~b, ~bq, ~bs.",
      "`export` writes a capture file, NDJSON that `replay`, `diff` and `import` read, packed where its name ends in `.gz`; a name that ends in `.har` gets a HAR file for browsers. `-` is standard output.",
    ],
    options: {
      store: storeOption,
      config: {
        type: "string",
        short: "c",
        value: "FILE",
        text: "The configuration whose recordings are meant, in place of `--store`.",
      },
      limit: { type: "string", short: "n", value: "COUNT", text: "How many to list; 50 unless given." },
      cursor: { type: "string", value: "CURSOR", text: "Goes on where a list ended, which said how." },
      oldest: { type: "boolean", text: "Lists the oldest first." },
      follow: { type: "boolean", short: "f", text: "The same as `traffic follow`." },
      full: { type: "boolean", text: "For `show`: long bodies whole." },
      operations: {
        type: "boolean",
        text: "For `export`: whole operations, where one of their exchanges fits the filter.",
      },
      before: { type: "string", value: "TIME", text: "For `prune`: what began earlier, such as `7d` ago." },
      "max-size": {
        type: "string",
        value: "SIZE",
        text: "For `prune`: the oldest, until no more than this is left, such as `2GB`.",
      },
      json: jsonOption,
    },
    examples: [
      { text: "What is going on right now", command: "headgate traffic follow" },
      { text: "What failed in the last hour", command: "headgate traffic status:err since:1h" },
      { text: "What one agent deleted", command: "headgate traffic principal:ann 'tool:delete_*'" },
      { text: "What was slow", command: "headgate traffic 'dur:>2s' -n 20" },
      { text: "What was refused, and by which rule", command: "headgate traffic denied" },
      { text: "One of them, told from start to end", command: "headgate traffic show 3fa9c1" },
      {
        text: "A file for a test or a colleague",
        command: "headgate traffic export today.ndjson since:9:00",
      },
      { text: "Percentiles by tool", command: "headgate traffic stats method:tools/call since:1d" },
    ],
    exits: ["ok", "usage", "config", "refused"],
    exitTexts: {
      usage: "The arguments or the filter are wrong.",
      config: "The recordings cannot be read or written.",
      refused: "There is no such exchange.",
    },
  },
  replay: {
    usage: [
      "replay CAPTURE [--port PORT] [--filter FILTER] [--leg LEG] [--fail-unused]",
      "replay CAPTURE --stdio",
      "replay CAPTURE --against URL [--header NAME:VALUE]… [--ignore POINTER]… [--allow-writes]",
      "replay CAPTURE [--allow-writes] -- COMMAND [ARGS…]",
    ],
    summary: "serves a recording as a mock server, or sends it to a server and compares",
    about: [
      "Without more it is a server that answers as the recorded one did: a request is recognised by its method and parameters, whatever their order and without tokens and trace context; equal ones are answered in recorded order, then the last one again. Answers carry the id and the progress token of the new request. What was not recorded is answered with error 4040 and the nearest recordings, and the command ends with exit code 5.",
      "With `--against` or a command it sends the recorded requests to that server, one after the other, and shows where its answers differ. Tools that may change something, which is all that do not say otherwise, are left out unless `--allow-writes` is given, and so are requests from which something was redacted.",
      "CAPTURE is a capture file as `headgate traffic export` writes it, or a file of recordings.",
    ],
    options: {
      port: {
        type: "string",
        short: "p",
        value: "PORT",
        text: "Port to listen on, of this machine; any free one unless given.",
      },
      stdio: { type: "boolean", text: "Serves one client on standard input and output instead." },
      filter: {
        type: "string",
        value: "FILTER",
        text: "Only what fits, as in `headgate traffic`; operations stay whole.",
      },
      leg: {
        type: "string",
        value: "LEG",
        text: "`client`, as clients saw it, or `upstream`, as the server behind the gateway said it; `client` unless given.",
      },
      "fail-unused": { type: "boolean", text: "Fails too where a recording was never asked for." },
      against: { type: "string", value: "URL", text: "Sends the recorded requests to this server." },
      header: {
        type: "string",
        short: "H",
        multiple: true,
        value: "NAME:VALUE",
        text: "With --against: a header for every request; may be repeated.",
      },
      ignore: {
        type: "string",
        multiple: true,
        value: "POINTER",
        text: "With --against: a place in answers that does not matter, such as `/result/content/*/text`; may be repeated.",
      },
      "allow-writes": {
        type: "boolean",
        text: "With --against: calls also tools that may change something.",
      },
      json: jsonOption,
    },
    examples: [
      { text: "A mock of the server of yesterday", command: "headgate replay yesterday.ndjson --port 9000" },
      { text: "For a client that starts its servers", command: "headgate replay yesterday.ndjson --stdio" },
      {
        text: "Does the new version still answer alike?",
        command: "headgate replay yesterday.ndjson --against http://127.0.0.1:3000/mcp",
      },
    ],
    exits: ["ok", "usage", "config", "unauthorized", "unreachable", "refused"],
    exitTexts: {
      ok: "Everything was recorded, or all answers were the same.",
      config: "The capture cannot be read.",
      refused: "A request was not recorded, or an answer differed.",
    },
  },
  diff: {
    usage: ["diff A B [--filter FILTER] [--leg LEG] [--ignore POINTER]… [--json]"],
    summary: "says in what two recordings differ",
    about: [
      "Compares two recordings call by call: what only one of them has, other parameters, other answers, another order, and latencies that differ by more than a fifth. Ids, tokens and metadata do not count; what was redacted cannot be compared, and is counted.",
    ],
    options: {
      filter: { type: "string", value: "FILTER", text: "Only what fits, as in `headgate traffic`." },
      leg: { type: "string", value: "LEG", text: "`client` or `upstream`; `client` unless given." },
      ignore: {
        type: "string",
        multiple: true,
        value: "POINTER",
        text: "A place in answers that does not matter, such as `/result/content/*/text`; may be repeated.",
      },
      json: jsonOption,
    },
    examples: [{ text: "Before and after an upgrade", command: "headgate diff before.ndjson after.ndjson" }],
    exits: ["ok", "usage", "config"],
    exitTexts: {
      ok: "They are the same.",
      usage: "They differ, or the arguments are wrong.",
      config: "One of them cannot be read.",
    },
  },
  drift: {
    usage: [
      "drift [--store PLACE] [--lock FILE] [--route NAME] [--json]",
      "drift approve [NAME]… [--store PLACE] [--lock FILE] [--route NAME]",
    ],
    summary: "says which tools, prompts and resources are not as they were approved",
    about: [
      "Looks at what servers offered last, as recorded, and compares it field by field with what was approved: names, descriptions, schemas, hints, instructions. `approve` takes it is now, all of it or the names that are given, and writes the lock file, which belongs into the repository beside the configuration.",
      "A gateway that has `drift: { lock: FILE, mode: warn }` in its configuration compares on the way; with `mode: hide` what is not as approved is taken out of lists, and with `mode: block` its calls are refused too.",
    ],
    options: {
      store: storeOption,
      lock: { type: "string", value: "FILE", text: "The lock file; `headgate.lock.json` unless given." },
      route: { type: "string", value: "NAME", text: "Only this route." },
      json: jsonOption,
    },
    examples: [
      { text: "Take things as they are for the first time", command: "headgate drift approve" },
      { text: "In CI, or every morning", command: "headgate drift" },
      { text: "After looking at a change", command: "headgate drift approve weigh --route harbor" },
    ],
    exits: ["ok", "usage", "config", "refused"],
    exitTexts: {
      ok: "Everything is as approved, or has been approved.",
      config: "The recordings or the lock file cannot be read.",
      refused: "Something is not as it was approved.",
    },
  },
} as const;
