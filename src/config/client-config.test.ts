import { describe, expect, it } from "vitest";

import { parseToml } from "../lib/text/toml.ts";
import { loadConfig } from "./load.ts";
import { fromClientConfig } from "./client-config.ts";

async function load(file: string, text: string) {
  return loadConfig({
    file: `/home/me/${file}`,
    env: { GITHUB_TOKEN: "t0ken-value", HOME: "/home/ann" },
    readFile: async () => Promise.resolve(text),
  });
}

const files: readonly (readonly [
  client: string,
  file: string,
  text: string,
  routes: Readonly<Record<string, unknown>>,
])[] = [
  [
    "Claude Code",
    ".claude.json",
    JSON.stringify({
      numStartups: 12,
      theme: "dark",
      oauthAccount: { emailAddress: "x" },
      mcpServers: { docs: { type: "http", url: "https://docs.example/mcp" } },
      projects: { "/home/me/app": { allowedTools: [], mcpServers: { docs: { command: "docs", args: ["--x"] } } } },
    }),
    {
      docs: { type: "http", url: "https://docs.example/mcp" },
      "docs-2": { type: "stdio", command: "docs", args: ["--x"] },
    },
  ],
  [
    "Claude Desktop",
    "claude_desktop_config.json",
    JSON.stringify({
      globalShortcut: "Ctrl+Space",
      mcpServers: { "My Files": { command: "npx", args: ["-y", "files"] } },
    }),
    { "my-files": { type: "stdio", command: "npx", args: ["-y", "files"] } },
  ],
  [
    "VS Code, with comments",
    "mcp.json",
    `{
      // what to ask for
      "inputs": [{ "type": "promptString", "id": "github-token", "password": true }],
      "servers": {
        "github": { "type": "http", "url": "https://api.example/mcp", "headers": { "Authorization": "Bearer \${input:github_token}" } },
        "own": { "type": "stdio", "command": "node", "args": ["server.js"], "envFile": ".env", "dev": { "watch": "x" }, },
      },
    }`,
    {
      github: { type: "http", headers: { authorization: "Bearer t0ken-value" } },
      own: { type: "stdio", command: "node", args: ["server.js"] },
    },
  ],
  [
    "VS Code and Cursor, with variables of the editor",
    "mcp.json",
    JSON.stringify({
      inputs: [],
      mcpServers: {
        own: {
          command: "node",
          args: ["${workspaceFolder}/server.js", "${userHome}${/}notes", "--key=${input:github-token}"],
          cwd: "${workspaceFolder}",
        },
      },
    }),
    {
      own: {
        type: "stdio",
        args: [`${process.cwd()}/server.js`, "/home/ann/notes", "--key=t0ken-value"],
        cwd: process.cwd(),
      },
    },
  ],
  [
    "Windsurf",
    "mcp_config.json",
    JSON.stringify({ mcpServers: { far: { serverUrl: "https://far.example/sse", disabledTools: ["x"] } }, version: 1 }),
    { far: { type: "http", url: "https://far.example/sse" } },
  ],
  [
    "Zed",
    "settings.json",
    `{ "theme": "One", "context_servers": { "old": { "command": { "path": "old", "args": ["a"], "env": { "K": "v" } } }, "new": { "source": "custom", "command": "new", "args": [] } } }`,
    { old: { type: "stdio", command: "old", args: ["a"], env: { K: "v" } }, new: { type: "stdio", command: "new" } },
  ],
  [
    "Codex",
    "config.toml",
    `model = "gpt"\n[tui]\nnotifications = true\n[mcp_servers.files]\ncommand = "npx" # run\nargs = [\n  "-y",\n  'files',\n]\nstartup_timeout_sec = 20\nenv_vars = ["GITHUB_TOKEN"]\n[mcp_servers.files.env]\nA = "1"\n[mcp_servers."far away"]\nurl = "https://far.example/mcp"\nbearer_token_env_var = "GITHUB_TOKEN"\n`,
    {
      files: { type: "stdio", command: "npx", args: ["-y", "files"], env: { A: "1", GITHUB_TOKEN: "t0ken-value" } },
      "far-away": { type: "http", headers: { authorization: "Bearer t0ken-value" } },
    },
  ],
  [
    "opencode",
    "opencode.json",
    JSON.stringify({
      theme: "x",
      mcp: {
        a: { type: "local", command: ["bun", "x", "a"], environment: { N: 1 }, enabled: true },
        b: { type: "remote", url: "https://b.example/mcp", enabled: false },
        c: { type: "remote", url: "https://c.example/mcp", headers: { X: "Bearer {env:GITHUB_TOKEN}" } },
      },
    }),
    {
      a: { type: "stdio", command: "bun", args: ["x", "a"], env: { N: "1" } },
      c: { type: "http", headers: { x: "Bearer t0ken-value" } },
    },
  ],
  [
    "Continue",
    "config.yaml",
    "name: mine\nmodels: []\nmcpServers:\n  - name: one\n    command: one\n    args: [x]\n",
    { one: { type: "stdio", command: "one", args: ["x"] } },
  ],
];

describe("the configuration of a client", () => {
  it.each(files)("of %s is taken", async (_, file, text, routes) => {
    const loaded = await load(file, text);
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    expect(Object.keys(loaded.config.routes)).toEqual(Object.keys(routes));
    for (const [name, upstream] of Object.entries(routes))
      expect(loaded.config.routes[name]?.upstream).toMatchObject(upstream as object);
    const notes = loaded.warnings.map(({ message }) => message).join("\n");
    expect(notes).toMatch(/ignored/u);
    expect(notes).not.toContain("t0ken-value");
  });

  it("leaves our own configuration alone, also with mcpServers in it", () => {
    for (const tree of [
      { routes: {}, servers: { a: { command: "x" } } },
      { listen: {}, mcpServers: { a: { command: "x" } } },
      { mcpServers: { a: { command: "x" } } },
      { upstrem: { command: "x" } },
      "text",
    ])
      expect(fromClientConfig(tree).tree).toBe(tree);
  });

  it("names every setting of a server that it leaves out, and servers that cannot be reached", async () => {
    const text = JSON.stringify({
      inputs: [],
      servers: {
        socket: { type: "http", url: "unix:///tmp/a.sock" },
        web: { type: "ws", url: "wss://web.example" },
        far: { serverUrl: "https://far.example/mcp", disabledTools: ["x"], timeout: 5 },
        near: { command: "near", envFile: ".env", enabled_tools: ["a"] },
      },
    });
    const loaded = await load("mcp.json", text);
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    expect(Object.keys(loaded.config.routes)).toEqual(["far", "near"]);
    expect(loaded.warnings.map(({ path, message }) => `${path} ${message}`)).toEqual([
      " is an MCP client's file; ignored because they do not configure servers: `inputs`",
      "servers.socket is left out: its URL begins with `unix://`",
      "servers.web is left out: WebSocket is not a transport of MCP that Headgate speaks",
      "servers.far `disabledTools` is ignored; `policy.tools` says which tools clients see",
      "servers.far `timeout` is ignored",
      "servers.near `envFile` is ignored; put its variables into the environment of the gateway, or into `env`",
      "servers.near `enabled_tools` is ignored; `policy.tools` says which tools clients see",
    ]);
  });

  it("says where a mistake is in the client's own words", async () => {
    const text = '{\n  "servers": {\n    "a": { "type": "http", "url": "nonsense" }\n  },\n  "inputs": []\n}';
    const loaded = await load("mcp.json", text);
    expect(loaded).toMatchObject({ ok: false, problems: [{ path: "servers.a.url", line: 3 }] });
  });
});

describe("TOML", () => {
  it.each<[string, unknown]>([
    ["a = 1\nb = -2.5e3\nc = 0xff\nd = 1_000", { a: 1, b: -2500, c: 255, d: 1000 }],
    [
      "a = \"x\\ty\\u00e9\"\nb = 'c:\\d'\nc = \"\"\"\nl1\nl2 \\\n   on\"\"\"\nd = '''raw\\'''",
      { a: "x\tyé", b: "c:\\d", c: "l1\nl2 on", d: "raw\\" },
    ],
    ["a.b.c = true\na.d = false", { a: { b: { c: true }, d: false } }],
    ["[[x]]\na = 1\n[[x]]\na = 2\n[x.y]\nb = 3", { x: [{ a: 1 }, { a: 2, y: { b: 3 } }] }],
    ["a = { b = 1, c = [1, [2]], } # end", { a: { b: 1, c: [1, [2]] } }],
    ["a = 2026-07-28T00:00:00Z\nb = 2026-07-28 10:00:00", { a: "2026-07-28T00:00:00Z", b: "2026-07-28 10:00:00" }],
    ['["quoted key".x]\r\n"y z" = "1"\r\n', { "quoted key": { x: { "y z": "1" } } }],
    ["", {}],
  ])("%j", (text, expected) => {
    expect(parseToml(text)).toEqual(expected);
  });

  it.each([
    ["a = ", "expected a value", 1],
    ["a = 1\nb", "expected =", 2],
    ["a = 1\na = 2", "duplicate key a", 2],
    ['a = "x', "the text does not end", 1],
    ["a = 1 b = 2", "expected a new line", 1],
    ["a = nope", "nope is not a value", 1],
  ])("refuses %j", (text, message, line) => {
    expect(() => parseToml(text)).toThrow(expect.objectContaining({ message, line }) as Error);
  });
});

describe("our own configuration with `mcpServers` only", () => {
  it.each([
    "federate: true",
    "log: { level: debug }",
    "timeouts: { tool: 1m }",
    "limits: { batch: 7 }",
    "admin: false",
  ])("keeps its other settings: %s", async (setting) => {
    const servers = "mcpServers: { a: { command: x }, b: { command: y } }\n";
    const result = await load("headgate.yaml", `${setting}\n${servers}`);
    if (!result.ok) throw new Error(JSON.stringify(result.problems));
    expect(result.warnings).toEqual([]);
    const plain = await load("headgate.yaml", servers);
    expect(plain.ok && { ...plain.config, secrets: undefined }).not.toEqual({ ...result.config, secrets: undefined });
  });
});
