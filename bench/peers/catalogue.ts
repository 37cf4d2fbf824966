import type { PeerSource } from "./install.ts";

/** What a gateway is put before. */
export type Upstreams =
  | { readonly kind: "stdio"; readonly command: readonly string[] }
  /** One server over HTTP, or several at one endpoint. */
  | { readonly kind: "http"; readonly urls: Readonly<Record<string, string>> };

/** How a gateway is started: arguments, a configuration file, and where its clients go. */
export interface PeerStart {
  readonly args: readonly string[];
  readonly path: string;
  /** Its name for the tool `echo` of the server `one`. */
  readonly tool: string;
}

/** Another gateway. */
export interface Peer {
  readonly source: PeerSource;
  readonly language: string;
  /** What it is measured with: a stdio server on HTTP, an HTTP server, several at one endpoint. */
  readonly does: readonly ("stdio" | "http" | "federation")[];
  /** Writes its configuration by `file`, which returns the path, and says how to start it. */
  readonly start: (upstreams: Upstreams, port: number, file: (name: string, text: string) => string) => PeerStart;
}

/** Gateways that can be built or installed and started here, with the versions that were tried. */
export const peers: readonly Peer[] = [
  {
    source: { from: "npm", name: "supergateway", version: "4.0.0", program: "dist/index.js" },
    language: "TypeScript",
    does: ["stdio"],
    start: (upstreams, port) => {
      const command = stdioOf(upstreams).map((word) => `'${word}'`);
      const output = [
        "--outputTransport",
        "streamableHttp",
        "--stateful",
        "--port",
        String(port),
        "--logLevel",
        "none",
      ];
      return { args: ["--stdio", command.join(" "), ...output], path: "/mcp", tool: "echo" };
    },
  },
  {
    source: { from: "npm", name: "mcp-proxy", version: "6.7.19", program: "dist/bin/mcp-proxy.mjs" },
    language: "TypeScript",
    does: ["stdio"],
    start: (upstreams, port) => ({
      args: ["--host", "127.0.0.1", "--port", String(port), "--", ...stdioOf(upstreams)],
      path: "/mcp",
      tool: "echo",
    }),
  },
  {
    source: { from: "crates.io", name: "mcp-proxy", version: "0.6.0", features: "yaml,metrics" },
    language: "Rust",
    does: ["http", "federation"],
    start: (upstreams, port, file) => {
      const backends = Object.entries(urlsOf(upstreams)).map(
        ([name, url]) => `[[backends]]\nname = "${name}"\ntransport = "http"\nurl = "${url}"\n`,
      );
      const proxy = `[proxy]\nname = "bench"\nversion = "1.0.0"\nseparator = "/"\n[proxy.listen]\nhost = "127.0.0.1"\nport = ${port}\n`;
      const quiet = '[observability]\naudit = false\nlog_level = "error"\n';
      const config = file(`rust-${port}.toml`, [proxy, ...backends, quiet].join("\n"));
      return { args: ["--config", config], path: "/", tool: "one/echo" };
    },
  },
  {
    source: { from: "Go modules", name: "github.com/TBXark/mcp-proxy", version: "v0.43.2" },
    language: "Go",
    // Each server has an endpoint of its own.
    does: ["http"],
    start: (upstreams, port, file) => {
      const addr = `127.0.0.1:${port}`;
      const proxy = { baseURL: `http://${addr}`, addr, name: "bench", version: "1.0.0", type: "streamable-http" };
      const servers = Object.entries(urlsOf(upstreams)).map(([name, url]) => [
        name,
        { url, transportType: "streamable-http" },
      ]);
      const options = { logEnabled: false };
      const config = { mcpProxy: { ...proxy, options }, mcpServers: Object.fromEntries(servers) as object };
      return { args: ["-config", file(`go-${port}.json`, JSON.stringify(config))], path: "/one/mcp", tool: "echo" };
    },
  },
  {
    source: { from: "PyPI", name: "fastmcp", version: "3.4.10" },
    language: "Python",
    does: ["http", "federation"],
    start: (upstreams, port) => {
      const servers = Object.entries(urlsOf(upstreams)).map(([name, url]) => [name, { url, transport: "http" }]);
      const target = JSON.stringify(JSON.stringify({ mcpServers: Object.fromEntries(servers) as object }));
      const program = [
        "import json",
        "from fastmcp.server import create_proxy",
        `proxy = create_proxy(json.loads(${target}), name="bench")`,
        `proxy.run(transport="http", host="127.0.0.1", port=${port}, show_banner=False, log_level="ERROR")`,
      ];
      // Only with several servers it puts their names before those of the tools.
      const tool = servers.length === 1 ? "echo" : "one_echo";
      return { args: ["-c", program.join("\n")], path: "/mcp", tool };
    },
  },
];

/** Gateways that could not be put beside ours when this was last tried, and why. */
export const absentPeers: readonly { readonly name: string; readonly reason: string }[] = [
  {
    name: "agentgateway 1.4.1 (Rust)",
    reason: "not on crates.io; it is built from its repository or comes as a binary or image",
  },
  {
    name: "ToolHive vMCP 0.44.0 (Go)",
    reason: "its module can be fetched; building its dependencies takes over ten minutes here, and was not tried",
  },
  { name: "Docker MCP Gateway 0.43.3 (Go)", reason: "starts servers as containers, and needs a Docker engine" },
  { name: "mcpproxy-go 0.60.0 (Go)", reason: "the module proxy does not have this version" },
  {
    name: "ContextForge 1.0.7 (Python)",
    reason: "installing its packages took longer than six minutes, and was given up",
  },
  { name: "LiteLLM 1.108.4 (Python)", reason: "a version of certifi that it needs was not on PyPI" },
];

function stdioOf(upstreams: Upstreams): readonly string[] {
  if (upstreams.kind !== "stdio") throw new TypeError("needs a stdio server");
  return upstreams.command;
}

function urlsOf(upstreams: Upstreams): Readonly<Record<string, string>> {
  if (upstreams.kind !== "http") throw new TypeError("needs servers on HTTP");
  return upstreams.urls;
}
