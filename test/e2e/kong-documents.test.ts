import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { settingDefinitions } from "../../src/policy/sideband/settings.ts";
import { parseInstanceConfig } from "../../src/kong/plugin-definition.ts";

const root = resolve(import.meta.dirname, "../..");
const examples = join(root, "examples/kong");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const guide = read("docs/guides/kong.md");

interface Plugin {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
}

function pluginsOf(file: string): readonly Plugin[] {
  const { services } = parse(readFileSync(join(examples, file), "utf8")) as {
    readonly services: readonly { readonly plugins: readonly Plugin[]; readonly routes: readonly object[] }[];
  };
  expect(services.every(({ routes }) => routes.length > 0)).toBe(true);
  return services.flatMap(({ plugins }) => plugins);
}

/** The cells of the rows of all tables, without the backticks. */
function tableRows(page: string): readonly (readonly string[])[] {
  return page
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll("`", "")),
    );
}

describe("the examples for Kong", () => {
  it.each(["api-route.yaml", "mcp-route.yaml"])(
    "%s has settings that the plugin takes, and the guard as shipped",
    (file) => {
      const plugins = pluginsOf(file);
      const own = plugins.find(({ name }) => name === "idpartners-ping-authorize");
      const unknown = Object.keys(own?.config ?? {}).filter((name) => !(name in settingDefinitions));
      expect(unknown).toEqual([]);
      expect(parseInstanceConfig(JSON.stringify(own?.config)).settings.service_url).toContain("https://");
      expect(plugins.find(({ name }) => name === "post-function")).toEqual(
        parse(readFileSync(join(examples, "guard.yaml"), "utf8")),
      );
    },
  );

  it("[PA-197] have an MCP route with everything about MCP", () => {
    const own = pluginsOf("mcp-route.yaml").find(({ name }) => name === "idpartners-ping-authorize");
    expect(own?.config).toMatchObject({ enable_mcp: true, mcp_jsonrpc_errors: true });
    expect(Object.keys(own?.config ?? {})).toEqual(
      expect.arrayContaining(["extract_headers", "mcp_retry_methods", "max_sideband_body_bytes"]),
    );
  });

  it("name one socket, one command and one plugin, in every form of configuration", () => {
    const conf = readFileSync(join(examples, "kong.conf"), "utf8");
    const lines = new Map(
      conf
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("#"))
        .map((line) => line.split(" = ") as [string, string]),
    );
    const env = new Map(
      readFileSync(join(examples, "kong.env"), "utf8")
        .trim()
        .split("\n")
        .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    expect([...lines.keys()].map((key) => `KONG_${key.toUpperCase()}`).toSorted()).toEqual([...env.keys()].toSorted());
    for (const [key, value] of lines) expect([key, env.get(`KONG_${key.toUpperCase()}`)]).toEqual([key, value]);
    const socket = lines.get("pluginserver_headgate_socket") ?? "";
    expect(lines.get("pluginserver_headgate_start_cmd")).toContain(`headgate-kong --socket ${socket}`);
    expect(lines.get("pluginserver_headgate_query_cmd")).toMatch(/headgate-kong --query$/u);
    const container = readFileSync(join(examples, "Containerfile"), "utf8");
    for (const [key, value] of env) expect(container).toContain(`${key}="${value}"`);
    const unit = readFileSync(join(examples, "headgate-kong.service"), "utf8");
    expect(unit).toMatch(/^ExecStart=\/usr\/local\/bin\/headgate-kong --socket \/run\/headgate-kong\/\S+$/mu);
    expect(unit).toMatch(/^Restart=always$/mu);
  });

  it("are all named in their README", () => {
    const readme = readFileSync(join(examples, "README.md"), "utf8");
    for (const file of globSync("*", { cwd: examples }).filter((name) => name !== "README.md")) {
      expect(readme).toContain(`(${file})`);
    }
  });
});

describe("the guide for Kong", () => {
  it("[PA-218] leads to the list of every setting with its type, default and constraint", () => {
    expect(guide).toContain("(../reference/kong-settings.md)");
    const settings = tableRows(read("docs/reference/kong-settings.md"));
    for (const [name, definition] of Object.entries(settingDefinitions)) {
      const [, type, fallback, constraint, description] = settings.find(([first]) => first === name) ?? [];
      expect([name, type?.replace(/\[\]$/u, "s")]).toEqual([name, definition.type]);
      expect(description).toBe(definition.description.replaceAll("`", ""));
      expect([name, fallback === "required"]).toEqual([name, !("default" in definition)]);
      if (definition.type === "integer") {
        expect([name, constraint]).toEqual([name, definition.min === 1 ? "> 0" : `≥ ${definition.min}`]);
      }
      if (definition.type === "integers") expect(constraint).toBe("each 400 to 599");
    }
    expect(guide).toMatch(/`verify_service_cert: false` is for \*\*test environments only\*\*/u);
  });

  it("[PA-218] has the table of failures with fail_open off and on", () => {
    const failures = tableRows(guide).filter((cells) => cells.length === 3);
    const find = (words: string) => failures.find(([first]) => first?.includes(words))?.slice(1);
    expect(find("cannot be reached")).toEqual(["502", "goes on"]);
    expect(find("answers 5xx")).toEqual(["502", "goes on"]);
    expect(find("not valid JSON")).toEqual(["502", "goes on"]);
    expect(find("answers 4xx")).toEqual(["502", "502"]);
    expect(find("a certificate, header or body")).toEqual(["400", "400"]);
    expect(find("anything unexpected")).toEqual(["500", "500"]);
  });

  it("[PA-197] explains every setting about MCP, when to turn JSON-RPC errors on, and OAuth plugins", () => {
    const mcp = guide.slice(guide.indexOf("## MCP"), guide.indexOf("## When it fails"));
    for (const words of [
      "enable_mcp",
      "mcp_jsonrpc_errors",
      "Turn it on where",
      "extract_headers",
      "OAuth plugins",
      "mcp_retry_methods",
      "max_sideband_body_bytes",
      "max_sideband_body_action",
      "mcp-route.yaml",
    ]) {
      expect(mcp).toContain(words);
    }
  });

  it("[PA-199] names the known limits", () => {
    const limits = guide.slice(guide.indexOf("## Known limits"), guide.indexOf("## Coming from"));
    for (const words of [
      "source_ip",
      "100 query arguments",
      "HTTP/1.1",
      "trip between processes",
      "client certificate",
      "buffer",
      "last JSON-RPC response",
      "Batches",
    ]) {
      expect(limits).toContain(words);
    }
  });

  it("[PA-219] tells users of ping-auth what changes: all its settings, and twenty aspects", () => {
    const coming = guide.slice(guide.indexOf("## Coming from"));
    for (const name of [
      "service_url",
      "shared_secret",
      "secret_header_name",
      "connection_timeout_ms",
      "connection_keepAlive_ms",
      "verify_service_certificate",
      "enable_debug_logging",
    ]) {
      expect(coming).toContain(`| \`${name}\``);
    }
    const aspects = coming
      .slice(coming.indexOf("| Aspect"))
      .split("\n")
      .filter((line) => line.startsWith("|"));
    expect(aspects).toHaveLength(2 + 20);
  });

  it("[PX-03] explains the guard and what it protects against", () => {
    const closed = guide.slice(guide.indexOf("### Fail closed"), guide.indexOf("## What it costs"));
    for (const words of ["guard", "dead", "throws", "does not come", "paz_access", "paz_response", "503", "502"]) {
      expect(closed).toContain(words);
    }
  });

  it("[PA-216] has the numbers of calls", () => {
    expect(guide).toContain("12 to read a request, 1 to mark it");
    expect(guide).toContain("The response phase makes 7");
  });

  it("links to files that exist", () => {
    const links = [...guide.matchAll(/\]\((?<to>[^)#:]+)(?:#[^)]*)?\)/gu)].map(({ groups }) => groups?.["to"] ?? "");
    expect(links.length).toBeGreaterThan(10);
    const missing = links.filter((to) => !existsSync(resolve(dirname(join(root, "docs/guides/kong.md")), to)));
    expect(missing).toEqual([]);
  });
});
