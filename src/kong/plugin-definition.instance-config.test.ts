import { describe, expect, it } from "vitest";
import { parseInstanceConfig } from "./plugin-definition.ts";

const needed = {
  service_url: "https://pingauthorize.example.com:443/policy",
  shared_secret: "resolved",
  secret_header_name: "X-Ping-Secret",
};
const notes = {
  __key__: "plugins:idpartners-ping-authorize:route",
  __seq__: 12,
  __plugin_id: "0c61e164",
  __ws_id: "default",
  route_id: "4d2f",
  service_id: null,
  plugin_instance_name: null,
};

const parse = (config: object) => parseInstanceConfig(JSON.stringify(config));

describe("the configuration that Kong hands over", () => {
  it("is read without Kong's own members, with defaults", () => {
    const { settings, pluginId, secretReference } = parse({ ...needed, ...notes, max_retries: null });
    expect(settings).toMatchObject({ ...needed, max_retries: 0, connection_timeout_ms: 10_000 });
    expect([pluginId, secretReference]).toEqual(["0c61e164", undefined]);
  });

  it("[PA-033] may have an empty list, which Lua writes as an empty object", () => {
    const { settings } = parse({ ...needed, mcp_retry_methods: {}, extract_headers: {}, redact_headers: {} });
    expect([settings.mcp_retry_methods, settings.extract_headers, settings.redact_headers]).toEqual([[], [], []]);
  });

  it("[PA-012] has the vault reference of the secret", () => {
    const { secretReference } = parse({ ...needed, $refs: { shared_secret: "{vault://env/paz-secret}" } });
    expect(secretReference).toBe("{vault://env/paz-secret}");
  });

  it("[PA-201] is checked again, whatever Kong's schema accepted", () => {
    expect(() => parse({ ...needed, max_retries: -1 })).toThrow("max_retries: must be at least 0");
    expect(() => parse({ ...needed, shared_secret: "" })).toThrow("shared_secret");
    expect(() => parseInstanceConfig("[]")).toThrow("not a JSON object");
    expect(() => parseInstanceConfig("{")).toThrow("not a JSON object");
  });

  it("falls back to the key, or the whole text, where there is no id", () => {
    expect(parse({ ...needed, __key__: "plugins:a" }).pluginId).toBe("plugins:a");
    expect(parse(needed).pluginId).toBe(JSON.stringify(needed));
  });
});
