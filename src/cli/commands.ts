import type { OptionTable } from "./command-line.ts";
import { recordingCommands } from "./traffic-commands.ts";

/** The endpoint at which a gateway with default settings serves its one server. */
export const defaultEndpoint = "http://127.0.0.1:8484/mcp";

/** All that is said of a command: what it takes, what it is for and how it is used. */
export interface Command {
  /** The ways to call it, without the name of the program. */
  readonly usage: readonly string[];
  /** One line for the list of commands. */
  readonly summary: string;
  /** Paragraphs for its own help. */
  readonly about: readonly string[];
  readonly options: OptionTable;
  readonly examples: readonly Example[];
  readonly exits: readonly ExitCodeName[];
  /** What an exit code means here, where that is more than what it means in general. */
  readonly exitTexts?: Readonly<Partial<Record<ExitCodeName, string>>>;
}

/** A command line that can be copied, and what it is good for. */
export interface Example {
  readonly text: string;
  readonly command: string;
}

const upstreamOptions = {
  config: {
    type: "string",
    short: "c",
    value: "FILE",
    text: "Configuration in YAML or JSON; `mcpServers` JSON as clients have it will do.",
  },
  upstream: { type: "string", short: "u", value: "URL", text: "The one server to stand in front of." },
  "upstream-header": {
    type: "string",
    multiple: true,
    value: "NAME:VALUE",
    text: "With --upstream: a header for every request to it, such as a token; may be repeated.",
  },
  transport: {
    type: "string",
    value: "KIND",
    text: "With --upstream: `streamable-http` or `sse`; Streamable HTTP unless given.",
  },
  "log-level": { type: "string", value: "LEVEL", text: "trace, debug, info, warn, error, fatal or silent." },
} as const satisfies OptionTable;

const headerOption = {
  type: "string",
  short: "H",
  multiple: true,
  value: "NAME:VALUE",
  text: "A header for every request, such as a token; may be repeated.",
} as const;

const clientExits = ["ok", "usage", "unauthorized", "unreachable", "refused"] as const;

/** Every command, in the order of the help. Parsing, help and reference all read this table. */
export const commands = {
  run: {
    usage: [
      "run [--config FILE] [--host HOST] [--port PORT]",
      "run --upstream URL [--host HOST] [--port PORT]",
      "run [--host HOST] [--port PORT] -- COMMAND [ARGS…]",
    ],
    summary: "serves MCP over HTTP, in front of one server or many",
    about: [
      "Listens for MCP clients over Streamable HTTP at `/mcp` and over the older HTTP+SSE at `/sse`, and passes every message on to a server: one that has a URL, or a command that is started for each session. With `--config` there can be many, each at `/NAME/mcp` and `/NAME/sse`.",
      "With none of these it serves a small demo server, to try things out.",
      "Only this machine can connect unless `--host` or the configuration says otherwise. SIGINT and SIGTERM let running calls finish first.",
    ],
    options: {
      ...upstreamOptions,
      host: { type: "string", value: "HOST", text: "Address to listen on; 127.0.0.1 unless given." },
      port: {
        type: "string",
        short: "p",
        value: "PORT",
        text: "Port to listen on; 8484 unless given, 0 for any free one.",
      },
      "admin-port": {
        type: "string",
        value: "PORT",
        text: "Port for /readyz and /metrics on this machine; without a configuration they are on --port.",
      },
    },
    examples: [
      { text: "Try it: a demo server behind the gateway", command: "headgate run" },
      {
        text: "In front of a server that runs somewhere",
        command: "headgate run --upstream https://mcp.example.com/mcp",
      },
      {
        text: "A local server that speaks stdio, served over HTTP",
        command: "headgate run -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
      },
      { text: "Several servers, on a port of your choice", command: "headgate run -c headgate.yaml -p 9000" },
    ],
    exits: ["ok", "usage", "config"],
    exitTexts: {
      ok: "It was asked to stop, and did.",
      usage: "The arguments are wrong, or it cannot start: the port is in use, for example.",
    },
  },
  stdio: {
    usage: ["stdio --upstream URL", "stdio -- COMMAND [ARGS…]", "stdio --config FILE"],
    summary: "serves one MCP client on standard input and output",
    about: [
      "For clients that start their servers as commands. The client starts `headgate stdio` and speaks MCP with it over the standard streams; Headgate passes every message on to the server, which may be somewhere else and speak HTTP. Logs go to standard error.",
      "Of a configuration with several routes, `--route` names the one to serve. With no server at all it serves the demo server.",
    ],
    options: {
      ...upstreamOptions,
      route: { type: "string", value: "NAME", text: "With --config: which of its routes to serve." },
    },
    examples: [
      {
        text: "A server on the network, for a client that knows stdio only",
        command: "headgate stdio --upstream https://mcp.example.com/mcp",
      },
      {
        text: "A local server, with Headgate in between",
        command: "headgate stdio -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
      },
    ],
    exits: ["ok", "usage", "config"],
    exitTexts: { ok: "The client closed its end." },
  },
  check: {
    usage: ["check FILE"],
    summary: "says whether a configuration is right, or what is wrong with it",
    about: [
      "Reads a configuration as `run` would, starts nothing, and lists the routes, or every problem with its line and column. Secrets are not shown.",
    ],
    options: {},
    examples: [{ text: "Before a restart, or in CI", command: "headgate check headgate.yaml" }],
    exits: ["ok", "config"],
    exitTexts: { config: "The configuration is wrong, or there is none." },
  },
  schema: {
    usage: ["schema"],
    summary: "prints the JSON schema of the configuration",
    about: [
      "For editors that complete and check as you type, and for other tools. A configuration in YAML names it in its first line: `# yaml-language-server: $schema=headgate.schema.json`.",
    ],
    options: {},
    examples: [
      {
        text: "Keep it beside the configuration",
        command: "headgate schema > headgate.schema.json",
      },
    ],
    exits: ["ok", "config"],
    exitTexts: { config: "The arguments are wrong." },
  },
  key: {
    usage: ["key", "key --stdin"],
    summary: "makes an API key for a client, and its hash for the configuration",
    about: [
      "Prints a new random key and its hash. The key goes to its owner, who sends it as `Authorization: Bearer KEY`; the configuration keeps the hash only, under `auth.authenticators`. Nothing is stored.",
      "With `--stdin` it reads a key that exists already, of 32 characters or more, and prints its hash.",
    ],
    options: { stdin: { type: "boolean", text: "Hashes the key on standard input instead of making one." } },
    examples: [{ text: "A key for a new client", command: "headgate key" }],
    exits: ["ok", "usage"],
  },
  policy: {
    usage: [
      "policy test FILE",
      "policy explain METHOD [PARAMS] --config FILE [--route NAME] [--principal JSON] [--answer JSON]",
      "policy replay CAPTURE --config FILE [--route NAME] [--principals FILE] [--strict] [--json]",
    ],
    summary: "tries the rules of a policy out, without starting anything",
    about: [
      "`test` asks the rules of a configuration about the cases of a file and says which came out as expected. A case has a message, a principal and the decision that is expected; the file names its configuration.",
      "`explain` asks about one message and shows what each rule said, what was looked at, and what the agent would be told. PARAMS is the `params` of the message as JSON; with `--answer` the rules for answers are asked instead.",
      "`replay` runs recorded traffic through the rules, without any server, and says what would come out otherwise: what is newly denied or allowed, which names lists would hide or show, which arguments and answers would change, and what cannot be decided because the recording does not have what a rule looks at. CAPTURE is a capture file or a file of recordings.",
    ],
    options: {
      config: {
        type: "string",
        short: "c",
        value: "FILE",
        text: "For `explain` and `replay`: the configuration.",
      },
      route: {
        type: "string",
        value: "NAME",
        text: "For `explain` and `replay`: which of its routes; for `replay` that of the same name unless given.",
      },
      principals: {
        type: "string",
        value: "FILE",
        text: "For `replay`: a YAML or JSON file with `kind`, `scopes` and `claims` of callers by their ids, which recordings do not keep.",
      },
      strict: { type: "boolean", text: "For `replay`: what cannot be decided fails too." },
      json: { type: "boolean", text: "For `replay`: prints the report as JSON." },
      principal: {
        type: "string",
        value: "JSON",
        text: "For `explain`: the caller, with any of `id`, `kind`, `scopes` and `claims`; anonymous unless given.",
      },
      answer: {
        type: "string",
        value: "JSON",
        text: "For `explain`: the answer to the message, an object with `result` or `error`.",
      },
    },
    examples: [
      { text: "Before a change goes live, or in CI", command: "headgate policy test policy.test.yaml" },
      {
        text: "Why may nobody delete files?",
        command: `headgate policy explain tools/call '{"name":"delete_file"}' -c headgate.yaml`,
      },
      {
        text: "The same for somebody with a token",
        command: `headgate policy explain tools/call '{"name":"delete_file"}' -c headgate.yaml --principal '{"id":"ann","scopes":["files:write"]}'`,
      },
      {
        text: "What would a new policy have done to yesterday's traffic?",
        command: "headgate policy replay yesterday.ndjson -c new.yaml",
      },
    ],
    exits: ["ok", "usage", "config"],
    exitTexts: {
      ok: "Every case came out as expected, the message was explained, or nothing would change.",
      usage: "A case came out otherwise, something would change, or the arguments are wrong.",
      config: "The configuration, the file of cases or the capture is wrong.",
    },
  },
  ...recordingCommands,
  tools: {
    usage: ["tools [URL] [--header NAME:VALUE]… [--json]", "tools [--json] -- COMMAND [ARGS…]"],
    summary: "lists the tools of a server with their arguments",
    about: [
      `Connects to a server as a client does, in the newest revision of MCP that both speak, and lists its tools. The server may be a URL (Streamable HTTP or HTTP+SSE), by default \`${defaultEndpoint}\`, or a command that speaks stdio.`,
    ],
    options: {
      header: headerOption,
      json: { type: "boolean", text: "Prints the list as the server gave it, as JSON." },
    },
    examples: [
      { text: "The tools behind the gateway on this machine", command: "headgate tools" },
      { text: "One of its routes", command: "headgate tools http://127.0.0.1:8484/files/mcp" },
      {
        text: "A server that wants a token",
        command: 'headgate tools https://mcp.example.com/mcp -H "Authorization: Bearer $TOKEN"',
      },
      {
        text: "A local server, without the gateway",
        command: "headgate tools -- npx -y @modelcontextprotocol/server-filesystem ~/notes",
      },
    ],
    exits: clientExits,
  },
  call: {
    usage: [
      "call NAME [KEY=VALUE]… [--url URL] [--header NAME:VALUE]… [--answer JSON]… [--json]",
      "call NAME --args JSON [--url URL]",
      "call NAME [KEY=VALUE]… -- COMMAND [ARGS…]",
    ],
    summary: "calls a tool and prints its result",
    about: [
      "`KEY=VALUE` gives one argument. It becomes a number, a boolean or other JSON where the tool's own schema says so, else it stays text; `KEY:=JSON` is always taken as JSON. `--args` sends one JSON object as it is, without checks.",
      "The result goes to standard output: its texts, then its structured content as JSON. Progress, log messages and errors go to standard error.",
      "If the tool asks something (elicitation), the question is put to you on the terminal. `--answer` gives the answer in advance, several of them in the order of the questions; where there is neither, the question is declined.",
    ],
    options: {
      url: { type: "string", value: "URL", text: `Endpoint of the server; ${defaultEndpoint} unless given.` },
      args: { type: "string", value: "JSON", text: "All arguments as one JSON object." },
      answer: {
        type: "string",
        multiple: true,
        value: "JSON",
        text: "Answer to a question of the tool, a JSON object; may be repeated.",
      },
      header: headerOption,
      json: { type: "boolean", text: "Prints the whole result as JSON." },
    },
    examples: [
      { text: "Two numbers, as the schema says", command: "headgate call add a=2 b=3" },
      { text: "Progress as it comes", command: "headgate call count_slowly to=5 delay_ms=500" },
      {
        text: "A tool that asks, with the answer in advance",
        command: `headgate call book_berth ship=Aurora --answer '{"berth":"A1"}'`,
      },
      {
        text: "Lists and objects as JSON",
        command: `headgate call search tags:='["new","open"]' --url http://127.0.0.1:8484/tickets/mcp`,
      },
      { text: "In a script", command: "headgate call add a=2 b=3 --json | jq .structuredContent.sum" },
    ],
    exits: clientExits,
  },
} as const satisfies Readonly<Record<string, Command>>;

/** The name of a command. */
export type CommandName = keyof typeof commands;

/** Whether there is a command of this name. */
export function isCommandName(name: string): name is CommandName {
  return Object.hasOwn(commands, name);
}

/** What the exit codes of the commands mean; those of `tools` and `call` are those of the MCP Inspector. */
export const exitCodes = {
  ok: { code: 0, text: "It went well." },
  usage: { code: 1, text: "The arguments are wrong." },
  config: { code: 2, text: "The configuration is wrong." },
  unauthorized: { code: 3, text: "The server wants authorization." },
  unreachable: { code: 4, text: "The server cannot be reached, or does not speak MCP." },
  refused: { code: 5, text: "The tool answered with an error, or the server did, or it has no such tool." },
} as const;

/** The name of an exit code. */
export type ExitCodeName = keyof typeof exitCodes;
