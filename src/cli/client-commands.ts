import type { OptionTable } from "./command-line.ts";

/** The endpoint of a gateway with default settings. */
export const defaultEndpoint = "http://127.0.0.1:8484/mcp";

const headerOption = {
  type: "string",
  short: "H",
  multiple: true,
  value: "NAME:VALUE",
  text: "Header to send with every request, such as a token. Repeatable.",
} as const;

const connectionOptions = {
  url: {
    type: "string",
    value: "URL",
    text: `Endpoint of the server; can also be the first argument, without \`--url\`. Default: ${defaultEndpoint}.`,
  },
  header: headerOption,
  socket: {
    type: "string",
    value: "PATH",
    text: "Connect to a gateway on this Unix socket; the path of the URL still applies. Default: /mcp.",
  },
  timeout: {
    type: "string",
    value: "DURATION",
    text: "Give up after this long without any response from the server, such as `5m`. Default: `60s`. A tool may take longer than that.",
  },
} as const satisfies OptionTable;

const clientExits = ["ok", "failed", "usage", "unauthorized", "unreachable", "refused"] as const;

/** The commands that talk to a server as a client. */
export const clientCommands = {
  tools: {
    usage: ["tools [URL] [--header NAME:VALUE]… [--json | --size]", "tools [--json | --size] -- COMMAND [ARGS…]"],
    summary: "list the tools of a server with their arguments",
    about: [
      `Connects to a server as a client, in the newest MCP revision that both support, and lists its tools. The server is a URL (Streamable HTTP or HTTP+SSE; default \`${defaultEndpoint}\`) or a command that speaks stdio.`,
    ],
    options: {
      ...connectionOptions,
      json: { type: "boolean", text: "Print the list as JSON, as the server returned it." },
      size: {
        type: "boolean",
        text: "Print how much of a model's context the list takes, in bytes and about how many tokens, and its longest tools.",
      },
    },
    examples: [
      { text: "List the tools behind the local gateway", command: "headgate tools" },
      { text: "What the list costs a model", command: "headgate tools --size" },
      { text: "List the tools of one route", command: "headgate tools http://127.0.0.1:8484/files/mcp" },
      {
        text: "A server that requires a token",
        command: 'headgate tools https://mcp.example.com/mcp -H "Authorization: Bearer $TOKEN"',
      },
      {
        text: "A local server, without the gateway",
        command: "headgate tools -- npx -y @modelcontextprotocol/server-filesystem .",
      },
    ],
    exits: clientExits,
  },
  call: {
    usage: [
      "call [URL] NAME [KEY=VALUE]… [--header NAME:VALUE]… [--answer JSON]… [--json]",
      "call [URL] NAME --args JSON",
      "call NAME [KEY=VALUE]… -- COMMAND [ARGS…]",
    ],
    summary: "call a tool and print its result",
    about: [
      "`KEY=VALUE` sets one argument. It is converted to a number, a boolean or other JSON if the tool's input schema says so, and is a string otherwise; `KEY:=JSON` is always parsed as JSON. `--args` sends one JSON object unchecked.",
      "The result goes to standard output: text first, then structured content as JSON. Progress, log messages and errors go to standard error.",
      "If the tool asks a question (elicitation), you are prompted on the terminal. `--answer` answers in advance; repeat it for several questions, in order. Without a terminal or an answer, the question is declined.",
    ],
    options: {
      ...connectionOptions,
      args: { type: "string", value: "JSON", text: "All arguments as one JSON object." },
      answer: {
        type: "string",
        multiple: true,
        value: "JSON",
        text: "Answer to a question of the tool, as a JSON object. Repeatable.",
      },
      json: { type: "boolean", text: "Print the whole result as JSON." },
    },
    examples: [
      { text: "Two numbers, converted by the schema", command: "headgate call add a=2 b=3" },
      { text: "Show progress as it arrives", command: "headgate call count_slowly to=5 delay_ms=500" },
      {
        text: "A tool that asks a question, answered in advance",
        command: `headgate call book_berth ship=Aurora --answer '{"berth":"A1"}'`,
      },
      {
        text: "Lists and objects as JSON",
        command: `headgate call http://127.0.0.1:8484/tickets/mcp search tags:='["new","open"]'`,
      },
      { text: "In a script", command: "headgate call add a=2 b=3 --json | jq .structuredContent.sum" },
    ],
    exits: clientExits,
  },
  resources: {
    usage: [
      "resources [URL] [--header NAME:VALUE]… [--json]",
      "resources [URL] read URI [--json]",
      "resources [read URI] [--json] -- COMMAND [ARGS…]",
    ],
    summary: "list the resources and resource templates of a server, or read one",
    about: [
      "Lists resources and resource templates with their URIs. `read` prints the content of one: text as it is, binary data as one line each.",
    ],
    options: { ...connectionOptions, json: { type: "boolean", text: "Print the result as JSON." } },
    examples: [
      { text: "List what can be read behind the local gateway", command: "headgate resources" },
      { text: "Read one", command: "headgate resources read harbor://tides/today" },
      {
        text: "Read one behind a route",
        command: "headgate resources http://127.0.0.1:8484/files/mcp read file:///notes.md",
      },
    ],
    exits: clientExits,
    exitTexts: { refused: "The server returned an error, or has no such resource." },
  },
  prompts: {
    usage: [
      "prompts [URL] [--header NAME:VALUE]… [--json]",
      "prompts [URL] get NAME [KEY=VALUE]… [--json]",
      "prompts [get NAME [KEY=VALUE]…] [--json] -- COMMAND [ARGS…]",
    ],
    summary: "list the prompts of a server, or get one",
    about: ["Lists prompts with their arguments. `get` fills in the arguments and prints the messages."],
    options: { ...connectionOptions, json: { type: "boolean", text: "Print the result as JSON." } },
    examples: [
      { text: "List the prompts behind the local gateway", command: "headgate prompts" },
      { text: "Get one, with an argument", command: "headgate prompts get greet name=Ann" },
    ],
    exits: clientExits,
    exitTexts: { refused: "The server returned an error, or has no such prompt." },
  },
} as const;
