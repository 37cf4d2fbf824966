import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { createCertificate } from "../../../test/support/certificate.ts";

import { plainSettings } from "../../../test/support/mock-pingauthorize.ts";
import { GatewayError } from "../../errors.ts";
import { parseSidebandSettings, settingDefinitions, type SidebandSettings } from "./settings.ts";

function problem(settings: Readonly<Record<string, unknown>>): string | undefined {
  try {
    parseSidebandSettings({ ...plainSettings, ...settings });
    return undefined;
  } catch (error) {
    return error instanceof GatewayError && error.code === "config_invalid" ? error.message : "another error";
  }
}

function defaultOf(name: keyof SidebandSettings): unknown {
  return parseSidebandSettings(plainSettings)[name];
}

describe("Sideband settings", () => {
  it.each(["http://pdp", "HTTPS://pdp:8443/policy", "https://[::1]:443", "https://pdp/v1/environments/1"])(
    "[PA-010] accepts %s as service_url",
    (url) => {
      expect(problem({ service_url: url })).toBeUndefined();
    },
  );

  it.each(["ftp://pdp", "pdp.example", "https://", "", 7, undefined])("[PA-010] refuses %s as service_url", (url) => {
    expect(problem({ service_url: url })).toContain("service_url:");
  });

  it.each(["/sideband", "/sideband/", "/a/sideband/request", "/sideband/response/"])(
    "[PA-011] refuses a service_url that ends in %s and says why",
    (path) => {
      expect(problem({ service_url: `https://pdp${path}` })).toContain("these are added to it");
    },
  );

  it("[PA-011] accepts any other path", () => {
    expect(problem({ service_url: "https://pdp/sidebandit" })).toBeUndefined();
    expect(problem({ service_url: "https://pdp/sideband/v2" })).toBeUndefined();
  });

  it("[PA-012] needs a secret, which may be a reference", () => {
    expect(problem({ shared_secret: "" })).toContain("shared_secret:");
    expect(problem({ shared_secret: undefined })).toContain("shared_secret: is required");
    expect(settingDefinitions.shared_secret).toMatchObject({ required: true, referenceable: true });
  });

  it("[PA-013] needs the name of the secret's header", () => {
    expect(problem({ secret_header_name: "" })).toContain("secret_header_name:");
    expect(problem({ secret_header_name: undefined })).toContain("secret_header_name: is required");
    expect(problem({ secret_header_name: "two words" })).toContain("secret_header_name:");
    expect(settingDefinitions.secret_header_name).toMatchObject({ required: true });
  });

  it.each([
    ["PA-014", "connection_timeout_ms", 10_000, [0, -1, 1.5, "5"]],
    ["PA-015", "connection_keepalive_ms", 60_000, [0, -1]],
    ["PA-020", "max_retries", 0, [-1, 0.5]],
    ["PA-021", "retry_backoff_ms", 500, [0, -1]],
    ["PA-028", "debug_body_max_bytes", 8192, [-1]],
    ["PA-031", "max_sideband_body_bytes", 0, [-1]],
  ] as const)("[%s] %s is an integer with its default and bound", (_row, name, fallback, bad) => {
    expect(defaultOf(name)).toBe(fallback);
    for (const value of bad) expect(problem({ [name]: value })).toContain(`${name}:`);
    expect(problem({ [name]: 1 })).toBeUndefined();
  });

  it("[PA-020] [PA-028] [PA-031] accepts 0 where that has a meaning", () => {
    expect(problem({ max_retries: 0, debug_body_max_bytes: 0, max_sideband_body_bytes: 0 })).toBeUndefined();
  });

  it.each([
    ["PA-016", "verify_service_cert", true],
    ["PA-017", "skip_response_phase", false],
    ["PA-018", "fail_open", false],
    ["PA-022", "circuit_breaker_enabled", true],
    ["PA-023", "strip_accept_encoding", true],
    ["PA-024", "include_full_cert_chain", false],
    ["PA-025", "enable_debug_logging", false],
    ["PA-026", "enable_otel", false],
    ["PA-029", "enable_mcp", false],
    ["PA-030", "mcp_jsonrpc_errors", false],
  ] as const)("[%s] %s is a boolean with its default", (_row, name, fallback) => {
    expect(defaultOf(name)).toBe(fallback);
    expect(parseSidebandSettings({ ...plainSettings, [name]: !fallback })[name]).toBe(!fallback);
    expect(problem({ [name]: "yes" })).toContain(`${name}: must be true or false`);
  });

  it("[PA-019] takes statuses from 400 to 599 to pass through", () => {
    expect(defaultOf("passthrough_status_codes")).toEqual([413]);
    expect(problem({ passthrough_status_codes: [400, 599] })).toBeUndefined();
    for (const code of [399, 600, 451.5, "413"]) {
      expect(problem({ passthrough_status_codes: [code] })).toContain("passthrough_status_codes:");
    }
  });

  it("[PA-027] redacts two headers unless told otherwise", () => {
    expect(defaultOf("redact_headers")).toEqual(["authorization", "cookie"]);
    expect(problem({ redact_headers: [7] })).toContain("redact_headers:");
  });

  it("[PA-032] extracts no headers unless told to", () => {
    expect(defaultOf("extract_headers")).toEqual([]);
    expect(problem({ extract_headers: "authorization" })).toContain("extract_headers:");
  });

  it("[PA-033] retries four methods unless told otherwise, and none with an empty list", () => {
    expect(defaultOf("mcp_retry_methods")).toEqual(["tools/list", "resources/list", "prompts/list", "initialize"]);
    const { mcp_retry_methods } = parseSidebandSettings({ ...plainSettings, mcp_retry_methods: [] });
    expect(mcp_retry_methods).toEqual([]);
  });

  it("[PA-034] refuses a retry method that is no recognised one, and names it", () => {
    expect(problem({ mcp_retry_methods: ["tools/call"] })).toBeUndefined();
    expect(problem({ mcp_retry_methods: ["tools/list", "ping"] })).toContain('unknown value "ping"');
  });

  it("[PA-202] knows two things to do with a payload over the limit", () => {
    expect(defaultOf("max_sideband_body_action")).toBe("truncate");
    expect(problem({ max_sideband_body_action: "reject" })).toBeUndefined();
    expect(problem({ max_sideband_body_action: "drop" })).toContain("one of truncate, reject");
  });

  it("[PA-035] accepts the full example of the design document", () => {
    const example = {
      service_url: "https://pingauthorize.example.com:443/policy",
      shared_secret: "{vault://env/PAZ_SECRET}",
      secret_header_name: "X-Ping-Secret",
      connection_timeout_ms: 5000,
      connection_keepalive_ms: 30_000,
      verify_service_cert: true,
      skip_response_phase: false,
      fail_open: false,
      passthrough_status_codes: [413],
      max_retries: 2,
      retry_backoff_ms: 250,
      circuit_breaker_enabled: true,
      strip_accept_encoding: true,
      include_full_cert_chain: false,
      enable_debug_logging: false,
      enable_otel: true,
      redact_headers: ["authorization", "cookie", "x-api-key"],
      debug_body_max_bytes: 8192,
    };
    expect(parseSidebandSettings(example)).toMatchObject(example);
  });

  it("takes null as not given, and refuses what it does not know", () => {
    expect(parseSidebandSettings({ ...plainSettings, max_retries: null }).max_retries).toBe(0);
    expect(problem({ max_retrys: 1 })).toContain("max_retrys: unknown setting");
    expect(() => parseSidebandSettings("x")).toThrow("must be an object");
  });

  it("takes certificates as PEM, a client's with its own key only", () => {
    const [one, other] = ["one", "other"].map((name) => {
      using files = createCertificate(name);
      return { cert: readFileSync(files.certFile, "utf8"), key: readFileSync(files.keyFile, "utf8") };
    });
    const { cert = "", key = "" } = one ?? {};
    expect(problem({ tls_ca_cert: cert, tls_client_cert: cert, tls_client_key: key })).toBeUndefined();
    expect(defaultOf("tls_ca_cert")).toBeUndefined();
    const broken = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----";
    for (const text of ["/etc/ca.pem", broken, `${cert}${broken}`, key])
      expect(problem({ tls_ca_cert: text })).toContain("tls_ca_cert: is not a certificate in PEM");
    for (const text of ["x", cert, broken.replaceAll("CERTIFICATE", "PRIVATE KEY")])
      expect(problem({ tls_client_cert: cert, tls_client_key: text })).toContain(
        "tls_client_key: is not a private key",
      );
    expect(problem({ tls_client_cert: cert, tls_client_key: other?.key })).toContain("not the key of tls_client_cert");
    for (const half of [{ tls_client_cert: cert }, { tls_client_key: key }]) {
      expect(problem(half)).toContain("goes together with tls_client_key");
    }
  });

  it("[PA-012] refuses a secret that no request could carry", () => {
    for (const secret of ["a\n", "a\r\nX: 1", " a", "a ", "a\0", "a\tb", "a\u007F", "snow\u2603", "😀"])
      expect([secret, problem({ shared_secret: secret })]).toEqual([
        secret,
        expect.stringContaining("shared_secret: has"),
      ]);
    for (const secret of ["a", "a b", "p\u00E4ss", "{vault://env/x}", "!~"])
      expect([secret, problem({ shared_secret: secret })]).toEqual([secret, undefined]);
  });

  it("[PA-013] refuses headers of the request that mean something else", () => {
    for (const name of [
      "Host",
      "content-length",
      "CONNECTION",
      "Transfer-Encoding",
      "traceparent",
      "User-Agent",
      "Expect",
    ])
      expect(problem({ secret_header_name: name })).toContain(
        "secret_header_name: is a header that has another meaning",
      );
    expect(problem({ secret_header_name: "Authorization" })).toBeUndefined();
  });

  it("names everything that is wrong at once", () => {
    const text = problem({ fail_open: 1, max_retries: -1 });
    expect(text).toContain("fail_open:");
    expect(text).toContain("max_retries:");
  });

  it("[PA-201] [PA-220] describes every setting with type and default", () => {
    const settings = parseSidebandSettings(plainSettings);
    expect(Object.keys(settingDefinitions).toSorted()).toEqual(Object.keys(settings).toSorted());
    for (const definition of Object.values(settingDefinitions)) {
      expect(definition.description).toMatch(/^[A-Z].*\.$/u);
      expect("default" in definition || "required" in definition || "optional" in definition).toBe(true);
    }
  });
});
