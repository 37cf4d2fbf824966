import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { settingDefinitions } from "../../src/policy/sideband/settings.ts";
import { parseInstanceConfig } from "../../src/kong/plugin-definition.ts";
import { mcpFixtures } from "../fixtures/mcp/messages.ts";
import { createFakeKong } from "../support/fake-kong/fake-kong.ts";
import { startLocalServer } from "../support/fake-kong/local-server.ts";
import { guards } from "../support/fake-kong/rig.ts";
import { startMockPingAuthorize } from "../support/mock-pingauthorize.ts";

const root = resolve(import.meta.dirname, "../..");
const examples = join(root, "examples/kong");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const guide = read("docs/guides/kong.md");

/** A part of the guide as one line: where its lines break is no matter. */
const asLine = (text: string): string => text.replaceAll(/\s+/gu, " ");

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

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly plugin?: string;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly configPatches?: readonly {
    readonly path: string;
    readonly valueFrom: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
  }[];
  readonly stringData?: Readonly<Record<string, string>>;
}

const example = (file: string): string => readFileSync(join(examples, file), "utf8");

/** The settings of a file with one on each line, without comments. */
function settingsIn(text: string, separator: string): ReadonlyMap<string, string> {
  return new Map(
    text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => [line.slice(0, line.indexOf(separator)), line.slice(line.indexOf(separator) + separator.length)]),
  );
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

  it("[PA-197] have an MCP route that works as the guide says", async () => {
    const own = pluginsOf("mcp-route.yaml").find(({ name }) => name === "idpartners-ping-authorize");
    await using mock = await startMockPingAuthorize();
    await using local = await startLocalServer();
    using kong = createFakeKong({
      socket: local.socket,
      plugin: local.plugin,
      guard: guards.full(),
      config: {
        ...own?.config,
        service_url: mock.url,
        shared_secret: "s",
        retry_backoff_ms: 1,
        circuit_breaker_enabled: false,
      },
    });
    const send = (body: string, headers = {}) =>
      kong.send({ method: "POST", body, headers: { "content-type": "application/json", ...headers } });
    await send(mcpFixtures.toolsCall, { authorization: "Bearer t", "x-consumer-username": "ann" });
    expect(mock.requests[0]?.payload).toMatchObject({
      traffic_type: "mcp",
      mcp: { mcp_tool_name: "get_weather" },
      extracted_headers: { authorization: "Bearer t", "x-consumer-username": "ann" },
    });
    mock.onRequest(() => ({ status: 500 }));
    const asked = async (body: string) => {
      const before = mock.requests.length;
      const { client } = await send(body);
      expect(JSON.parse(client.body.toString())).toMatchObject({ jsonrpc: "2.0", error: { code: -32_000 } });
      return mock.requests.length - before;
    };
    expect([await asked(mcpFixtures.toolsList), await asked(mcpFixtures.toolsCall)]).toEqual([3, 1]);
    const large = mcpFixtures.toolsCall.replace("London", "x".repeat(1_100_000));
    expect((await send(large)).client.status).toBe(413);
  });

  it("have no event stream under a response phase: GET is answered with 405", () => {
    const { services } = parse(read("examples/kong/mcp-route.yaml")) as {
      readonly services: readonly {
        readonly plugins: readonly Plugin[];
        readonly routes: readonly { readonly methods: readonly string[] }[];
      }[];
    };
    const judging = services.filter(({ plugins }) => plugins.some(({ name }) => name === "idpartners-ping-authorize"));
    expect(judging.flatMap(({ routes }) => routes.flatMap(({ methods }) => methods))).toEqual(["POST", "DELETE"]);
    const get = services.find(({ routes }) => routes.some(({ methods }) => methods.includes("GET")));
    expect(get?.plugins).toMatchObject([{ name: "request-termination", config: { status_code: 405 } }]);
  });

  it("name one socket, one command and one plugin, in every form of configuration", () => {
    const lines = settingsIn(example("kong.conf"), " = ");
    const env = settingsIn(example("kong.env"), "=");
    const upper = [...lines].map(([key, value]) => [`KONG_${key.toUpperCase()}`, value] as const);
    expect(Object.fromEntries(upper)).toEqual(Object.fromEntries(env));
    const socket = lines.get("pluginserver_ping_authorize_socket") ?? "";
    expect(lines.get("pluginserver_ping_authorize_start_cmd")).toBe(`/usr/local/bin/headgate-kong --socket ${socket}`);
    expect(lines.get("pluginserver_ping_authorize_query_cmd")).toBe("/usr/local/bin/headgate-kong --query");
    const container = example("Containerfile");
    for (const [key, value] of env) expect(container).toContain(`${key}="${value}"`);
    const { gateway } = parse(example("helm-values.yaml")) as { readonly gateway: { readonly env: object } };
    expect(gateway.env).toMatchObject(Object.fromEntries(lines));
    for (const file of ["hybrid-control-plane.env", "hybrid-data-plane.env"]) {
      expect([...settingsIn(example(file), "=")]).toEqual(expect.arrayContaining([...env]));
    }
    const unit = example("headgate-kong.service");
    expect(unit).toMatch(/^ExecStart=\/usr\/local\/bin\/headgate-kong --socket \/run\/headgate-kong\/\S+$/mu);
    expect(unit).toMatch(/^Restart=always$/mu);
  });

  it("have no plugin server that Kong would take for another command", () => {
    const { bin } = JSON.parse(read("package.json")) as { readonly bin: Readonly<Record<string, string>> };
    const names = globSync("*", { cwd: examples })
      .map(example)
      .concat(guide)
      .flatMap((text) => [...text.matchAll(/pluginserver_names["']?\s*[=:]\s*"?(?<name>\w+)/giu)])
      .map(({ groups }) => groups?.["name"]);
    expect(names.length).toBeGreaterThan(5);
    for (const name of new Set(names)) expect(Object.keys(bin)).not.toContain(name);
  });

  it("have a Containerfile that copies what the package has and starts it as Kong does", () => {
    const container = example("Containerfile");
    expect(container).toContain("env -i /usr/local/bin/headgate-kong --query");
    const [, linked = ""] = /ln -s \/usr\/local\/lib\/node_modules\/headgate\/(\S+) /u.exec(container) ?? [];
    const { bin } = JSON.parse(read("package.json")) as { readonly bin: Readonly<Record<string, string>> };
    expect([linked, existsSync(join(root, linked))]).toEqual([bin["headgate-kong"], true]);
  });

  it("have a compose file whose files exist and whose variables Kong knows", () => {
    const { services } = parse(example("compose.yaml")) as {
      readonly services: {
        readonly kong: {
          readonly build: { readonly dockerfile: string };
          readonly environment: Readonly<Record<string, string>>;
          readonly volumes: readonly string[];
        };
      };
    };
    const { build, environment, volumes } = services.kong;
    expect(existsSync(join(examples, build.dockerfile))).toBe(true);
    const [source = "", target] = volumes[0]?.split(":") ?? [];
    expect([existsSync(join(examples, source)), target]).toEqual([true, environment["KONG_DECLARATIVE_CONFIG"]]);
    // What the configuration reads from the vault is there, and what the plugin server may see is passed on.
    expect(example("api-route.yaml")).toContain("{vault://env/paz-secret}");
    expect(environment).toHaveProperty("PAZ_SECRET");
    for (const name of (environment["KONG_NGINX_MAIN_ENV"] ?? "").split("; env "))
      expect(environment).toHaveProperty(name);
  });

  it("have Kubernetes resources with the plugin, the guard as shipped and an Ingress that names both", () => {
    const resources = parseAllDocuments(example("kubernetes.yaml")).map((document) => document.toJS() as Resource);
    const plugins = resources.filter(({ kind }) => kind === "KongPlugin");
    const own = plugins.find(({ plugin }) => plugin === "idpartners-ping-authorize");
    const [patch] = own?.configPatches ?? [];
    const { name, key } = patch?.valueFrom.secretKeyRef ?? { name: "", key: "" };
    const secret = resources.find(({ kind, metadata }) => kind === "Secret" && metadata.name === name);
    const patched = {
      ...own?.config,
      [patch?.path.slice(1) ?? ""]: JSON.parse(secret?.stringData?.[key] ?? "") as unknown,
    };
    expect(parseInstanceConfig(JSON.stringify(patched)).settings.shared_secret).toBe("change me");
    const { config } = parse(example("guard.yaml")) as { readonly config: unknown };
    expect(plugins.find(({ plugin }) => plugin === "post-function")?.config).toEqual(config);
    const ingress = resources.find(({ kind }) => kind === "Ingress");
    expect(ingress?.metadata.annotations?.["konghq.com/plugins"]?.split(",").toSorted()).toEqual(
      plugins.map(({ metadata }) => metadata.name).toSorted(),
    );
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
      expect([name, fallback === "required"]).toEqual([name, "required" in definition]);
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
    expect(find("cannot be reached")).toEqual(["502", "passes"]);
    expect(find("answers 5xx")).toEqual(["502", "passes"]);
    expect(find("not valid JSON")).toEqual(["502", "passes"]);
    expect(find("answers 4xx")).toEqual(["502", "502"]);
    expect(find("a certificate, header or body")).toEqual(["400", "400"]);
    expect(find("anything unexpected")).toEqual(["500", "500"]);
  });

  it("[PA-197] explains every setting about MCP, when to turn JSON-RPC errors on, and OAuth plugins", () => {
    const mcp = guide.slice(guide.indexOf("## MCP"), guide.indexOf("## When it fails"));
    const about = Object.keys(settingDefinitions).filter((name) => /mcp|extract|sideband_body/u.test(name));
    expect(about.length).toBeGreaterThan(6);
    for (const name of [...about, "Turn it on if", "OAuth plugins", "mcp-route.yaml"])
      expect(asLine(mcp)).toContain(name);
  });

  it("shows configuration that is what the plugin and the examples have", () => {
    const blocks = [...guide.matchAll(/^ *```(?<language>\w+)\n(?<text>.*?)^ *```/gmsu)].map(({ groups }) => ({
      ...groups,
    }));
    const inLanguage = (language: string) =>
      blocks.filter((block) => block["language"] === language).map((block) => block["text"] ?? "");
    const conf = settingsIn(example("kong.conf"), " = ");
    for (const block of inLanguage("ini"))
      expect([...conf]).toEqual(expect.arrayContaining([...settingsIn(block, " = ")]));
    const examplesText = ["api-route.yaml", "mcp-route.yaml"].flatMap(pluginsOf);
    for (const block of inLanguage("yml")) {
      const shown = parse(block) as { readonly plugins?: readonly Plugin[]; readonly config?: Plugin["config"] };
      for (const { config } of shown.plugins ?? [{ config: shown.config ?? {} }]) {
        const base = { service_url: "https://a", shared_secret: "s", secret_header_name: "h" };
        expect(parseInstanceConfig(JSON.stringify({ ...base, ...config })).settings).toMatchObject(config);
        expect(
          examplesText.some((plugin) =>
            Object.entries(config).every(([name, value]) => isDeepStrictEqual(plugin.config[name], value)),
          ),
        ).toBe(true);
      }
    }
    const { version } = JSON.parse(read("package.json")) as { readonly version: string };
    for (const block of blocks.filter(({ text }) => text?.includes("headgate-0") === true)) {
      expect(block["text"]).toContain(`headgate-${version}.tgz`);
    }
    const files = blocks.flatMap(({ text = "" }) => [
      ...text.matchAll(/(?:--file|--filename|--values|node) (?<file>[\w./-]+)/gu),
    ]);
    expect(files.length).toBeGreaterThan(3);
    for (const { groups } of files)
      expect([groups?.["file"], existsSync(join(root, groups?.["file"] ?? ""))]).toEqual([groups?.["file"], true]);
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
      expect(asLine(limits)).toContain(words);
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
      expect(asLine(closed)).toContain(words);
    }
  });

  it("[PA-216] has the numbers of calls", () => {
    expect(asLine(guide)).toContain("12 to read a request, 1 to mark it");
    expect(asLine(guide)).toContain("The response phase makes 7");
  });

  it("links to files that exist", () => {
    const links = [...guide.matchAll(/\]\((?<to>[^)#:]+)(?:#[^)]*)?\)/gu)].map(({ groups }) => groups?.["to"] ?? "");
    expect(links.length).toBeGreaterThan(10);
    const missing = links.filter((to) => !existsSync(resolve(dirname(join(root, "docs/guides/kong.md")), to)));
    expect(missing).toEqual([]);
  });
});
