import { describe, expect, it } from "vitest";

import { type ConfigResult, loadConfig, type LoadOptions } from "./load.ts";
import { formatProblem } from "./issues.ts";

const files: Readonly<Record<string, string>> = {
  "/etc/headgate/key": "key-from-file\n",
  "/etc/headgate/servers.json":
    '{\n\t"mcpServers": {\n\t\t"Files": { "command": "npx", "args": ["-y", "files"] }\n\t}\n}',
  "/etc/headgate/headgate.yaml": "upstream: { demo: true }\n",
};

async function readFile(path: string): Promise<string> {
  const text = files[path];
  if (text === undefined) throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
  return Promise.resolve(text);
}

async function load(text: string, options: Partial<LoadOptions> = {}): Promise<ConfigResult> {
  return loadConfig({ text, env: {}, readFile, ...options });
}

async function problemsOf(text: string, options: Partial<LoadOptions> = {}): Promise<readonly string[]> {
  const result = await load(text, options);
  return result.ok ? [] : result.problems.map((problem) => formatProblem(problem, "f"));
}

describe("loading a configuration", () => {
  it("reads a file by its name", async () => {
    const yaml = await loadConfig({ file: "/etc/headgate/headgate.yaml", env: {}, readFile });
    expect(yaml.ok && Object.keys(yaml.config.routes)).toEqual(["default"]);
    const none = await loadConfig({ file: "/etc/none.yaml", env: {}, readFile });
    expect(none).toEqual({
      ok: false,
      problems: [{ path: "", message: "cannot be read: no such file" }],
    });
  });

  it("takes a file that is only the mcpServers of a client as it is", async () => {
    const result = await loadConfig({ file: "/etc/headgate/servers.json", env: {}, readFile });
    expect(result.ok && result.config.routes["files"]).toMatchObject({
      prefixes: ["/files", ""],
      upstream: { type: "stdio", command: "npx" },
    });
  });

  it("says every problem at once, with line and column, in the order of the file", async () => {
    const text = `listen:
  hots: x
  port: 99999
routes:
  files:
    upstream:
      command: npx
      args: ["\${env:NONE}"]
    mode: enforced
`;
    expect(await problemsOf(text)).toEqual([
      "f:2:3 listen: unknown key `hots`; did you mean `host`?",
      "f:3:3 listen.port: must be at most 65535",
      "f:8:14 routes.files.upstream.args[0]: environment variable NONE is not set; set it, or write `${env:NONE:-default}`",
      "f:9:5 routes.files.mode: expected one of `enforce`, `observe`; did you mean `enforce`?",
    ]);
  });

  it("says where YAML and JSON themselves are wrong", async () => {
    expect(await problemsOf("upstream: { demo: true }\nupstream: { demo: true }\n")).toEqual([
      "f:2:1 duplicate key `upstream`; keep one",
    ]);
    expect(await problemsOf('{ "upstream": }', { format: "json" })).toEqual(["f:1:15 invalid JSON from here on"]);
  });

  it("takes an empty file for one without routes", async () => {
    expect(await problemsOf("")).toEqual(["f no routes: set `upstream`, `routes` or `mcpServers`"]);
    expect(await problemsOf("# nothing\n")).toHaveLength(1);
  });

  it("says once that a value is missing, not that it is wrong as well", async () => {
    expect(await problemsOf("upstream: { url: '${env:URL}' }")).toEqual([
      "f:1:13 upstream.url: environment variable URL is not set; set it, or write `${env:URL:-default}`",
    ]);
  });

  it("lets references stand for numbers and truth values", async () => {
    const text = `listen: { port: "\${env:PORT}", host: 0.0.0.0, allowAnonymous: "\${env:OPEN}" }
admin: { port: "\${env:ADMIN:-9001}" }
timeouts: { tool: "\${env:WAIT}" }
upstream: { demo: true }
`;
    const result = await load(text, { env: { PORT: "9000", OPEN: "true", WAIT: "2m" } });
    expect(result.ok && result.config).toMatchObject({
      listen: { port: 9000, allowAnonymous: true },
      admin: { port: 9001 },
      timeouts: { tool: 120_000 },
    });
    expect(await problemsOf(text, { env: { PORT: "http", OPEN: "yes", WAIT: "2m" } })).toEqual([
      "f:1:11 listen.port: expected a number, found a string",
      "f:1:47 listen.allowAnonymous: expected `true` or `false`, found a string; write `true`",
    ]);
    expect(await problemsOf('listen: { port: "9000" }\nupstream: { demo: true }')).toHaveLength(1);
  });

  it("never shows what came by reference, in the configuration or in problems", async () => {
    const text = `routes:
  a: { upstream: { url: "https://x.example/\${env:TOKEN}", headers: { X-Key: "\${file:key}" } } }
  b: { upstream: { command: run, args: ["--token=\${env:TOKEN}"] } }
`;
    const file = "/etc/headgate/headgate.yaml";
    const result = await load(text, { file, env: { TOKEN: "hunter-token" } });
    if (!result.ok) throw new Error(JSON.stringify(result.problems));
    expect(result.config.routes["a"]?.upstream).toMatchObject({ headers: { "x-key": "key-from-file" } });
    const shown = result.config.secrets.redact(JSON.stringify(result.config));
    expect(shown).not.toContain("hunter-token");
    expect(shown).not.toContain("key-from-file");
    expect(shown).toContain("https://x.example/(secret)");

    const wrong = await problemsOf('upstream: { demo: true }\nlog: { level: "${env:TOKEN}" }', {
      env: { TOKEN: "hunter-token" },
    });
    expect(wrong).toHaveLength(1);
    expect(wrong.join("\n")).not.toContain("hunter-token");
  });

  it("keeps no environment for servers that are switched off", async () => {
    const text = "mcpServers: { on: { command: x }, off: { command: y, disabled: true, env: { A: '${NONE}' } } }";
    expect(await problemsOf(text)).toEqual([]);
  });

  it("takes paths as relative to the folder of the file", async () => {
    const text = `listen: { tls: { certFile: cert.pem, keyFile: /abs/key.pem } }
routes:
  a: { upstream: { command: x, cwd: work } }
  b: { upstream: { url: "https://x", tls: { caFile: ca.pem } } }
`;
    const result = await load(text, { file: "/etc/headgate/headgate.yaml" });
    expect(result.ok && result.config).toMatchObject({
      listen: { tls: { certFile: "/etc/headgate/cert.pem", keyFile: "/abs/key.pem" } },
      routes: {
        a: { upstream: { cwd: "/etc/headgate/work" } },
        b: { upstream: { tls: { caFile: "/etc/headgate/ca.pem" } } },
      },
    });
  });

  it("lets the command line win, and blames the file for nothing that stands there", async () => {
    const text = "listen: { port: 1, host: 127.0.0.2 }\nupstream: { demo: true }";
    const result = await load(text, {
      overrides: { listen: { port: 9000 }, log: { level: "warn" }, admin: false },
    });
    expect(result.ok && result.config).toMatchObject({
      listen: { port: 9000, host: "127.0.0.2" },
      log: { level: "warn" },
      admin: false,
    });
    const open = await load(text, { overrides: { listen: { host: "0.0.0.0" } } });
    expect(open.ok ? [] : open.problems).toMatchObject([{ path: "listen.host" }]);
    expect(open.ok ? {} : open.problems[0]).not.toHaveProperty("line");
  });
});
