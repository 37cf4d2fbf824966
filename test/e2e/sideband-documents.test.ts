import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { sidebandMetrics } from "../../src/policy/sideband/telemetry.ts";
import { settingDefinitions } from "../../src/policy/sideband/settings.ts";
import { mcpFixtures, sseStream } from "../fixtures/mcp/messages.ts";

const root = resolve(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(resolve(root, path), "utf8");
const guide = read("docs/guides/pingauthorize.md");
const design = read("docs/design/sideband.md");

function section(text: string, title: string): string {
  return text.split(/^## /mu).find((part) => part.startsWith(title)) ?? "";
}

describe("the documents about PingAuthorize", () => {
  it("[PA-198] the design has payload schemas of both phases", () => {
    const payloads = section(design, "Payloads");
    const members =
      "source_ip source_port method url body headers http_version client_certificate traffic_type mcp extracted_headers response_code response_status state request mcp_method mcp_tool_name mcp_tool_arguments mcp_resource_uri mcp_prompt_name mcp_jsonrpc_id";
    for (const member of members.split(" ")) {
      expect(payloads).toContain(`\`${member}\``);
    }
  });

  it("[PA-198] the design has event streams, errors, changed arguments and filtered lists", () => {
    for (const title of ["Event streams", "Errors", "Changing arguments", "Filtering lists"]) {
      expect(section(design, title).length).toBeGreaterThan(300);
    }
    for (const code of ["−32600", "−32601", "−32000", "−32603"]) expect(section(design, "Errors")).toContain(code);
  });

  it("[PA-218] the guide has every setting with type, default and constraint", () => {
    const rows = section(guide, "Settings").split("\n");
    for (const [name, definition] of Object.entries(settingDefinitions)) {
      const cells =
        rows
          .find((row) => row.includes(`\`${name}\``))
          ?.split("|")
          .map((cell) => cell.trim()) ?? [];
      expect([name, cells.length]).toEqual([name, 7]);
      // Where the gateway's default differs, the guide names the plugin's behind it.
      const [, documented = digits(cells[4] ?? "")] = /in Kong (.*)$/u.exec(digits(cells[4] ?? "")) ?? [];
      expect([name, documented]).toEqual([
        name,
        "default" in definition
          ? digits(shown(name, definition.default))
          : "required" in definition
            ? "required"
            : "none",
      ]);
    }
    expect(section(guide, "Settings")).toContain("off for test environments only");
  });

  it("[PA-218] the guide has the failures with the gate shut and open", () => {
    const rows = section(guide, "When it fails")
      .split("\n")
      .filter((row) => row.startsWith("|"));
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.filter((row) => row.includes("passes"))).toHaveLength(3);
  });

  it("[PA-199] the design has the limits", () => {
    for (const limit of ["100 query arguments", "HTTP/1.1", "cannot be changed", "last response only", "batches"]) {
      expect(section(design, "Limits")).toContain(limit);
    }
  });

  it("the guide has every metric with its labels", () => {
    for (const { name, labels } of Object.values(sidebandMetrics)) {
      const row = guide.split("\n").find((line) => line.startsWith(`| \`${name}\``)) ?? "";
      expect([name, row.split("|")[2]?.trim()]).toEqual([name, labels.map((label) => `\`${label}\``).join(", ")]);
    }
  });

  it("[PA-220] every setting and every MCP type has a documentation comment", () => {
    const files = globSync(["src/policy/sideband/*.ts", "src/protocol/http/mcp-context.ts"], { cwd: root });
    const declared = files
      .filter((file) => !file.endsWith(".test.ts"))
      .flatMap((file) => [...read(file).matchAll(/(?<before>[^\n]*)\nexport (?:interface|type) (?<name>\w+)/gu)])
      .map(({ groups }) => ({ name: groups?.["name"] ?? "", before: groups?.["before"] ?? "" }));
    expect(declared.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["McpContext", "McpSummary", "SidebandSettings"]),
    );
    expect(declared.filter(({ before }) => !before.trimEnd().endsWith("*/"))).toEqual([]);
    // The type of the settings is derived from their definitions, which document each of them.
    const descriptions = Object.values(settingDefinitions).map(({ description }) => description);
    for (const description of descriptions) expect(description).toMatch(/^[A-Z].{20,}\.$/u);
    expect(new Set(descriptions).size).toBe(descriptions.length);
  });
});

describe("the engine's own house", () => {
  it("[PA-007] callers of the engine know its contract only", () => {
    for (const file of ["phases.ts", "phase-facts.ts", "phase-event.ts", "plugin-server.ts"]) {
      const imports = [...read(`src/kong/${file}`).matchAll(/from "(?<path>[^"]*policy[^"]*)"/gu)];
      const paths = imports.map(({ groups }) => groups?.["path"]);
      expect([file, paths.filter((path) => path !== "../policy/sideband/contract.ts")]).toEqual([file, []]);
    }
    const contract = read("src/policy/sideband/contract.ts");
    for (const operation of ["evaluateRequest(", "evaluateResponse("]) expect(contract).toContain(operation);
  });

  it("[PA-192] every pure function has tests of its own", () => {
    const functions = [
      "toSidebandHeaders",
      "fromSidebandHeaders",
      "parseHttpUrl",
      "composeUrl",
      "reencodeQuery",
      "encodePath",
      "responseStatusText",
      "toClientCertificate",
      "formatHttpVersion",
      "fitPayload",
      "truncateBody",
      "parseSidebandSettings",
      "createShowForLog",
      "truncateText",
      "jsonRpcCode",
      "retryAfterSeconds",
      "createBreaker",
      "withRetry",
      "mcpContextOf",
      "finalResponseOf",
      "bodyAfterPolicy",
    ];
    const texts = globSync("src/{policy,protocol}/**/*.test.ts", { cwd: root }).map(read);
    // Imported once, and used at least once more.
    const untested = functions.filter((name) => !texts.some((text) => text.split(name).length > 2));
    expect(untested).toEqual([]);
  });
});

describe("the MCP fixtures", () => {
  it("[PA-195] are all there, and are what they are called", () => {
    const parsed = Object.fromEntries(
      Object.entries(mcpFixtures).map(([name, text]) => [name, JSON.parse(text) as Record<string, unknown>]),
    );
    expect(parsed["toolsCall"]).toMatchObject({
      method: "tools/call",
      params: { name: "get_weather", arguments: { city: "London" } },
    });
    expect(parsed["toolsCallWithoutArguments"]?.["params"]).toEqual({ name: "get_weather" });
    for (const [name, method] of [
      ["toolsList", "tools/list"],
      ["resourcesList", "resources/list"],
      ["promptsList", "prompts/list"],
    ] as const) {
      expect(parsed[name]).toMatchObject({ method, params: {} });
    }
    expect(parsed["resourcesRead"]?.["params"]).toEqual({ uri: "file:///data/config.json" });
    expect(parsed["promptsGet"]?.["params"]).toEqual({ name: "summarize" });
    expect(parsed["initialize"]?.["params"]).toMatchObject({
      protocolVersion: expect.any(String) as unknown,
      capabilities: expect.any(Object) as unknown,
    });
    expect(parsed["toolsListResponse"]).toMatchObject({
      result: { tools: [{ name: "get_weather" }, { name: "get_time" }, { name: "delete_user" }] },
    });
    expect(parsed["errorResponse"]?.["error"]).toEqual({ code: -32_600, message: "Invalid Request" });
    const events = sseStream.trim().split("\n\n");
    expect(events).toHaveLength(3);
    expect(events[2]).toContain('"result"');
    expect(events.slice(0, 2).every((event) => event.includes('"method":"notifications/'))).toBe(true);
  });
});

/** A default as the guide writes it: durations in the unit that reads best. */
function shown(name: string, value: unknown): string {
  if (name.endsWith("_ms")) return Number(value) >= 1000 ? `${Number(value) / 1000} s` : `${String(value)} ms`;
  return Array.isArray(value) ? `[${value.join(", ")}]` : String(value);
}

function digits(cell: string): string {
  return cell.replaceAll("`", "");
}
