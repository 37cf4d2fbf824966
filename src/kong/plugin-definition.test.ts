import { describe, expect, it } from "vitest";
import { settingDefinitions } from "../policy/sideband/settings.ts";
import { pluginDump } from "./plugin-definition.ts";

interface Dump {
  readonly Name: string;
  readonly Version: string;
  readonly Priority: number;
  readonly Phases: readonly string[];
  readonly Schema: {
    readonly name: string;
    readonly fields: readonly [{ readonly config: { readonly type: string; readonly fields: object[] } }];
  };
}

function dump(accessOnly = false): Dump {
  const parsed = JSON.parse(JSON.stringify(pluginDump({ accessOnly }))) as Dump[];
  expect(parsed).toHaveLength(1);
  const [entry] = parsed;
  if (entry === undefined) throw new Error("the dump is empty");
  return entry;
}

const fields = (): Readonly<Record<string, Readonly<Record<string, unknown>>>> =>
  Object.assign({}, ...dump().Schema.fields[0].config.fields) as Record<string, Record<string, unknown>>;

describe("the description of the plugin for Kong", () => {
  it("[PA-001] [PA-002] [PA-003] is its name, version and priority", () => {
    expect(dump()).toMatchObject({ Name: "idpartners-ping-authorize", Version: "2.1.0", Priority: 999 });
    expect(dump().Schema.name).toBe("idpartners-ping-authorize");
  });

  it("[PA-004] [PX-08] are both phases, or access alone", () => {
    expect(dump().Phases).toEqual(["access", "response"]);
    expect(dump(true).Phases).toEqual(["access"]);
  });

  it("[PA-006] allows routes, services and global use", () => {
    expect(dump().Schema.fields.flatMap((field) => Object.keys(field))).toEqual(["config"]);
  });

  it("[PA-201] has every setting", () => {
    expect(Object.keys(fields())).toEqual(Object.keys(settingDefinitions));
  });

  it("has optional settings that are neither required nor have a default, and a key that Kong encrypts", () => {
    expect(fields()["tls_ca_cert"]).toEqual({ type: "string", len_min: 1, referenceable: true });
    expect(fields()["tls_client_key"]).toEqual({ type: "string", len_min: 1, referenceable: true, encrypted: true });
  });

  it("[PA-201] has types, defaults, required marks and constraints in Kong's terms", () => {
    const { service_url: url, shared_secret: secret, secret_header_name: header } = fields();
    expect(url).toMatchObject({ type: "string", required: true, len_min: 1 });
    expect(secret).toMatchObject({ type: "string", required: true, referenceable: true, len_min: 1 });
    expect(header).toMatchObject({ type: "string", required: true });
    expect(fields()).toMatchObject({
      connection_timeout_ms: { type: "integer", required: true, default: 10_000, gt: 0 },
      max_retries: { type: "integer", default: 0, between: [0, Number.MAX_SAFE_INTEGER] },
      verify_service_cert: { type: "boolean", default: true },
      fail_open: { type: "boolean", default: false },
      passthrough_status_codes: {
        type: "array",
        default: [413],
        elements: { type: "integer", between: [400, 599] },
      },
      redact_headers: { type: "array", default: ["authorization", "cookie"], elements: { type: "string" } },
      max_sideband_body_action: { type: "string", default: "truncate", one_of: ["truncate", "reject"] },
      mcp_retry_methods: {
        default: ["tools/list", "resources/list", "prompts/list", "initialize"],
        elements: { one_of: expect.arrayContaining(["tools/call"]) as unknown },
      },
    });
  });
});
