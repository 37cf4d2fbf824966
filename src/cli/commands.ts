import type { OptionTable } from "./command-line.ts";
import { clientCommands } from "./client-commands.ts";
import { trafficCommands } from "./traffic-commands.ts";

/** Where the admin paths of a gateway with default settings are: without and with a configuration file. */
export const defaultAdminUrls = ["http://127.0.0.1:8484", "http://127.0.0.1:8485"] as const;

/** Exit codes of all commands; 3 to 5 are those of the MCP Inspector. */
export const exitCodes = {
  ok: { code: 0, text: "Success." },
  failed: { code: 1, text: "The command failed." },
  usage: { code: 2, text: "Invalid arguments, configuration or input file." },
  unauthorized: { code: 3, text: "The server requires authorization." },
  unreachable: { code: 4, text: "The server cannot be reached or does not speak MCP." },
  refused: { code: 5, text: "The tool or the server returned an error, or the tool does not exist." },
} as const;

/** The name of an exit code. */
export type ExitCodeName = keyof typeof exitCodes;

/** Everything that parsing, help and the reference page need to know about a command. */
export interface Command {
  /** Usage lines, without the name of the program. */
  readonly usage: readonly string[];
  /** One line for the list of commands. */
  readonly summary: string;
  /** Paragraphs for its own help. */
  readonly about: readonly string[];
  readonly options: OptionTable;
  readonly examples: readonly Example[];
  readonly exits: readonly ExitCodeName[];
  /** What an exit code means for this command, where that is more specific. */
  readonly exitTexts?: Readonly<Partial<Record<ExitCodeName, string>>>;
}

/** A command line to copy, and what it does. */
export interface Example {
  readonly text: string;
  readonly command: string;
}

const upstreamOptions = {
  config: {
    type: "string",
    short: "c",
    value: "FILE",
    text: "Configuration file in YAML or JSON; the `mcpServers` JSON of MCP clients works too.",
  },
  upstream: { type: "string", short: "u", value: "URL", text: "URL of the one server to proxy." },
  federate: {
    type: "string",
    multiple: true,
    value: "NAME=SERVER",
    text: "One of several servers to serve behind one endpoint: its name, and its URL or the command that starts it. Repeatable; further NAME=SERVER may follow.",
  },
  "upstream-header": {
    type: "string",
    multiple: true,
    value: "NAME:VALUE",
    text: "With --upstream: header to send with every request, such as a token. Repeatable.",
  },
  transport: {
    type: "string",
    value: "KIND",
    text: "With --upstream: `streamable-http` or `sse`. Default: detect it.",
  },
  env: {
    type: "string",
    short: "e",
    multiple: true,
    value: "NAME[=VALUE]",
    text: "With a command: environment variable to pass to it, with its current value unless you give one. Repeatable.",
  },
  "no-record": { type: "boolean", text: "Record nothing." },
  intercept: {
    type: "string",
    multiple: true,
    value: "FILE",
    text: "TypeScript or JavaScript file with interceptors for all messages; `run` loads it again when it changes. Repeatable.",
  },
  "log-level": { type: "string", value: "LEVEL", text: "trace, debug, info, warn, error, fatal or silent." },
} as const satisfies OptionTable;

/** Every command, in the order of the help. */
export const commands = {
  run: {
    usage: [
      "[run] [[--config] FILE] [--host HOST] [--port PORT]",
      "[run] --upstream URL [--host HOST] [--port PORT]",
      "[run] [--host HOST] [--port PORT] -- COMMAND [ARGS…]",
      "[run] --federate NAME=SERVER… [--host HOST] [--port PORT]",
    ],
    summary: "serve MCP over HTTP in front of one or more servers (the default command)",
    about: [
      "Listens for MCP clients over Streamable HTTP at `/mcp` and over the older HTTP+SSE at `/sse`, and forwards every message to a server: one with a URL, or a command that is started once per session. A configuration file can list several servers; each is served at `/NAME/mcp` and `/NAME/sse`.",
      "Without arguments it uses `headgate.yaml` (or `headgate.yml`, `headgate.json`) in the current folder; without such a file it runs a small demo server.",
      "A command gets a few variables of the environment: PATH, HOME and the like, proxies and certificates (HTTPS_PROXY, NO_PROXY, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE, …) and the settings of npm, pip and uv, but nothing that looks like a secret; pass others with `--env`.",
      "Listens on loopback only unless `--host` or the configuration says otherwise. On SIGINT or SIGTERM, running calls finish first.",
    ],
    options: {
      ...upstreamOptions,
      host: {
        type: "string",
        value: "HOST",
        text: "Address to listen on. Default: 127.0.0.1. A non-loopback address needs authentication, or --allow-anonymous.",
      },
      port: {
        type: "string",
        short: "p",
        value: "PORT",
        text: "Port to listen on; 0 for any free port. Default: 8484.",
      },
      "allow-anonymous": {
        type: "boolean",
        text: "Allow unauthenticated callers on a non-loopback address.",
      },
      workers: {
        type: "string",
        value: "N",
        text: "Processes that serve clients, on one port; auto for one per core. Default: 1, or `workers` of the configuration.",
      },
      "admin-port": {
        type: "string",
        value: "PORT",
        text: "Loopback port for /console, /api/v1, /readyz and /metrics. Without a configuration file they are served on --port.",
      },
    },
    examples: [
      { text: "Try it with the demo server", command: "headgate run" },
      { text: "Proxy a remote server", command: "headgate run --upstream https://mcp.example.com/mcp" },
      {
        text: "Serve a local stdio server over HTTP",
        command: "headgate run -- npx -y @modelcontextprotocol/server-filesystem .",
      },
      {
        text: "Serve two servers behind one endpoint",
        command:
          "headgate run --federate docs=https://mcp.example.com/mcp notes='npx -y @modelcontextprotocol/server-filesystem .'",
      },
      { text: "Serve several servers on another port", command: "headgate run -c headgate.yaml -p 9000" },
    ],
    exits: ["ok", "failed", "usage"],
    exitTexts: {
      ok: "Stopped by signal.",
      failed: "Failed to start, for example because the port is in use.",
    },
  },
  console: {
    usage: ["console [--url URL] [--no-open]"],
    summary: "open the console of a running gateway in a browser",
    about: [
      "Opens a link that signs you in once, and prints it. The gateway must run on this machine as the same user: both read the token in the user's data folder.",
    ],
    options: {
      url: {
        type: "string",
        value: "URL",
        text: `Address of the gateway's admin paths. Default: that of the \`headgate.yaml\` in this folder, ${defaultAdminUrls.join(" or ")}, where one answers.`,
      },
      "no-open": { type: "boolean", text: "Only print the link." },
    },
    examples: [
      { text: "Open the console of the gateway that runs with default settings", command: "headgate console" },
      { text: "Only print the link", command: "headgate console --no-open" },
    ],
    exits: ["ok", "usage", "unreachable"],
    exitTexts: { unreachable: "No gateway answers there." },
  },
  intercept: {
    usage: ["intercept FILTER [--timeout TIME] [--on-timeout block|continue] [--url URL]"],
    summary: "hold messages of a running gateway, and edit, drop or answer them",
    about: [
      "Holds every message that matches FILTER, requests and their answers, and asks what to do with each: release it, edit it in `$EDITOR`, drop it, or answer it in the server's place. An edit changes only the values that you change; every other byte stays the same. Policy and validation still apply to released messages.",
      "FILTER is a filter of `headgate traffic`; `~q` selects requests, `~s` answers, `~a` everything. Terms that are known only afterwards, such as `dur:` or `decision:`, are rejected.",
      "A message that is not decided in time is refused, or released with `--on-timeout continue`. When this command ends, held messages are released. At most 100 messages are held at once, 50 of one caller; further ones are refused.",
      "The gateway must run on this machine as the same user.",
    ],
    options: {
      timeout: { type: "string", value: "TIME", text: "Maximum time to hold a message. Default: 5m." },
      "on-timeout": {
        type: "string",
        value: "ACTION",
        text: "What happens then: `block` refuses the message, `continue` releases it. Default: block.",
      },
      url: {
        type: "string",
        value: "URL",
        text: `Address of the gateway's admin paths. Default: that of the \`headgate.yaml\` in this folder, ${defaultAdminUrls.join(" or ")}, where one answers.`,
      },
    },
    examples: [
      {
        text: "Look at every call of a tool before it reaches the server",
        command: "headgate intercept 'tool:delete_* ~q'",
      },
      { text: "Change what a tool answers", command: "headgate intercept 'tool:search ~s'" },
    ],
    exits: ["ok", "failed", "usage", "unreachable"],
    exitTexts: {
      ok: "Ended by q, Ctrl+C or the end of input.",
      failed: "The gateway ended first.",
      unreachable: "No gateway answers there.",
    },
  },
  stdio: {
    usage: ["stdio --upstream URL", "stdio -- COMMAND [ARGS…]", "stdio [--config] FILE"],
    summary: "serve one MCP client over standard input and output",
    about: [
      "For clients that start their servers as commands. The client starts `headgate stdio` and speaks MCP over the standard streams; Headgate forwards every message to the server, which may be remote and speak HTTP. Logs go to standard error.",
      "If the configuration has several routes, `--route` selects one. Without a server it runs the demo server.",
    ],
    options: {
      ...upstreamOptions,
      route: { type: "string", value: "NAME", text: "With --config: the route to serve." },
    },
    examples: [
      {
        text: "Use a remote server from a client that only supports stdio",
        command: "headgate stdio --upstream https://mcp.example.com/mcp",
      },
      {
        text: "Put Headgate in front of a local server",
        command: "headgate stdio -- npx -y @modelcontextprotocol/server-filesystem .",
      },
    ],
    exits: ["ok", "failed", "usage"],
    exitTexts: { ok: "The client closed the connection, or the command was stopped by a signal." },
  },
  check: {
    usage: ["check [[--config] FILE] [--only-file]"],
    summary: "validate a configuration file",
    about: [
      "Loads a configuration as `run` would, without starting anything. Lists the routes, or every problem with its line and column. Secrets are not shown. Without FILE it takes `headgate.yaml` of the current folder.",
      "Also checks that this machine has what the configuration needs: certificates, the lock file of `drift`, folders to write to, programs, free ports. What keeps `run` from starting is a problem; what will not work later is a warning.",
    ],
    options: {
      config: upstreamOptions.config,
      "only-file": {
        type: "boolean",
        text: "Check the file alone, as on a machine without its certificates, folders and programs.",
      },
    },
    examples: [
      { text: "Before a restart, or in CI", command: "headgate check headgate.yaml" },
      { text: "On a machine that will not run it", command: "headgate check --only-file headgate.yaml" },
    ],
    exits: ["ok", "usage"],
    exitTexts: { usage: "The configuration is invalid or cannot be read." },
  },
  init: {
    usage: ["init [CLIENT-FILE]… [--output FILE] [--force]", "init --upstream URL", "init -- COMMAND [ARGS…]"],
    summary: "write a configuration, optionally from those of your MCP clients",
    about: [
      "Writes a commented `headgate.yaml`. The servers are those of the given files of MCP clients (Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Zed, Codex and others), or the one named by `--upstream` or a command. Without any, it looks for such files in this folder and in your home, and asks on a terminal which to take, or for a server.",
      "Secrets in the files of clients are not copied: what looks like one becomes a reference to an environment variable.",
    ],
    options: {
      output: {
        type: "string",
        short: "o",
        value: "FILE",
        text: "File to write; `-` prints it. Default: `headgate.yaml`.",
      },
      force: { type: "boolean", text: "Replace the file if it exists." },
      upstream: upstreamOptions.upstream,
    },
    examples: [
      { text: "Find the servers that your clients use", command: "headgate init" },
      { text: "From one file", command: "headgate init ~/.claude.json" },
      { text: "For one server", command: "headgate init -- npx -y @modelcontextprotocol/server-everything" },
    ],
    exits: ["ok", "usage"],
    exitTexts: { usage: "Invalid arguments, a file cannot be read, or the file to write exists." },
  },
  doctor: {
    usage: [
      "doctor [[--config] FILE] [--route NAME]",
      "doctor --upstream URL",
      "doctor [--env NAME[=VALUE]]… -- COMMAND [ARGS…]",
    ],
    summary: "find out why a gateway or a server does not work",
    about: [
      "Checks files, folders and ports, then tries each server once: name, connection and certificate of a URL, or the start of a command; then its answer, era, tools and how long that took. Every failure comes with a remedy, and with what the command wrote to standard error. Without FILE it takes `headgate.yaml` of the current folder.",
      "Servers are started and listed, but no tool is called. Nothing is recorded.",
    ],
    options: {
      config: upstreamOptions.config,
      route: { type: "string", value: "NAME", text: "Only this route." },
      upstream: upstreamOptions.upstream,
      "upstream-header": upstreamOptions["upstream-header"],
      transport: upstreamOptions.transport,
      env: upstreamOptions.env,
    },
    examples: [
      { text: "Check everything in the configuration of this folder", command: "headgate doctor" },
      { text: "One server", command: "headgate doctor --upstream https://mcp.example.com/mcp" },
      {
        text: "A command, before it goes into a configuration",
        command: "headgate doctor -- npx -y @modelcontextprotocol/server-everything",
      },
    ],
    exits: ["ok", "failed", "usage"],
    exitTexts: { ok: "Everything works, perhaps with warnings.", failed: "Something does not work." },
  },
  schema: {
    usage: ["schema"],
    summary: "print the JSON schema of the configuration",
    about: [
      "For editors that complete and validate as you type. Reference it in the first line of a YAML configuration: `# yaml-language-server: $schema=headgate.schema.json`.",
    ],
    options: {},
    examples: [{ text: "Save it next to the configuration", command: "headgate schema > headgate.schema.json" }],
    exits: ["ok", "usage"],
  },
  key: {
    usage: ["key", "key --stdin"],
    summary: "generate an API key for a client, and its hash for the configuration",
    about: [
      "Prints a new random key and its hash. Give the key to the client, which sends it as `Authorization: Bearer KEY`; put the hash into the configuration under `auth.authenticators`. Nothing is stored.",
      "With `--stdin` it reads an existing key of at least 32 characters and prints its hash.",
    ],
    options: { stdin: { type: "boolean", text: "Hash the key on standard input instead of generating one." } },
    examples: [{ text: "Generate a key for a new client", command: "headgate key" }],
    exits: ["ok", "usage"],
  },
  ...clientCommands,
  completion: {
    usage: ["completion bash", "completion zsh", "completion fish"],
    summary: "print the script that completes commands and options in a shell",
    about: ["The script is generated from the same table as this help. Load it when the shell starts."],
    options: {},
    examples: [
      {
        text: "Install it for bash",
        command: "headgate completion bash > ~/.local/share/bash-completion/completions/headgate",
      },
      { text: "For zsh, in a folder of $fpath", command: "headgate completion zsh > ~/.zfunc/_headgate" },
      { text: "In ~/.config/fish/config.fish", command: "headgate completion fish | source" },
    ],
    exits: ["ok", "usage"],
  },
  man: {
    usage: ["man"],
    summary: "print the manual page",
    about: ["The page is generated from the same table as this help."],
    options: {},
    examples: [
      { text: "Read it", command: "headgate man | man -l -" },
      { text: "Install it for this user", command: "headgate man > ~/.local/share/man/man1/headgate.1" },
    ],
    exits: ["ok", "usage"],
  },
  ...trafficCommands,
} as const satisfies Readonly<Record<string, Command>>;

/** The name of a command. */
export type CommandName = keyof typeof commands;

/** The commands by what they are for, as the help lists them. */
export const commandGroups: readonly { readonly title: string; readonly names: readonly CommandName[] }[] = [
  { title: "Serve", names: ["run", "stdio", "console", "intercept"] },
  { title: "Configure", names: ["init", "check", "doctor", "schema", "key"] },
  { title: "Talk to a server", names: ["tools", "call", "resources", "prompts"] },
  { title: "Look at recorded traffic, and try changes on it", names: ["traffic", "replay", "diff", "policy", "drift"] },
  { title: "In your shell", names: ["completion", "man"] },
];

/** Whether there is a command of this name. */
export function isCommandName(name: string): name is CommandName {
  return Object.hasOwn(commands, name);
}
