import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { createCertificate } from "../support/certificate.ts";
import { createAuthority } from "../support/client-certificates.ts";
import { createFakeKong } from "../support/fake-kong/fake-kong.ts";
import { startLocalServer } from "../support/fake-kong/local-server.ts";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import { startMockPingAuthorize } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

describe("settings, as Kong hands them to the packed plugin", () => {
  it.each([
    ["[PA-010]", { service_url: "ftp://paz.example.com" }],
    ["[PA-010]", { service_url: "https://" }],
    ["[PA-010]", { service_url: null }],
    ["[PA-011]", { service_url: "https://paz.example.com/sideband" }],
    ["[PA-011]", { service_url: "https://paz.example.com/p/sideband/request/" }],
    ["[PA-011]", { service_url: "https://paz.example.com/sideband/response" }],
    ["[PA-012]", { shared_secret: "" }],
    ["[PA-013]", { secret_header_name: "" }],
    ["[PA-014]", { connection_timeout_ms: 0 }],
    ["[PA-015]", { connection_keepalive_ms: 0 }],
    ["[PA-016]", { verify_service_cert: "yes" }],
    ["[PA-017]", { skip_response_phase: 1 }],
    ["[PA-018]", { fail_open: "no" }],
    ["[PA-019]", { passthrough_status_codes: [399] }],
    ["[PA-019]", { passthrough_status_codes: [600] }],
    ["[PA-020]", { max_retries: -1 }],
    ["[PA-021]", { retry_backoff_ms: 0 }],
    ["[PA-022]", { circuit_breaker_enabled: 0 }],
    ["[PA-023]", { strip_accept_encoding: "x" }],
    ["[PA-024]", { include_full_cert_chain: "x" }],
    ["[PA-025]", { enable_debug_logging: "x" }],
    ["[PA-026]", { enable_otel: "x" }],
    ["[PA-027]", { redact_headers: "cookie" }],
    ["[PA-028]", { debug_body_max_bytes: -1 }],
    ["[PA-029]", { enable_mcp: "x" }],
    ["[PA-030]", { mcp_jsonrpc_errors: "x" }],
    ["[PA-031]", { max_sideband_body_bytes: -1 }],
    ["[PA-202]", { max_sideband_body_action: "drop" }],
    ["[PA-201]", { max_body_bytes: -1 }],
    ["[PA-201]", { non_mcp_json: "maybe" }],
    ["[PA-201]", { tls_ca_cert: "/etc/ca.pem" }],
    ["[PA-201]", { tls_client_cert: "-----BEGIN CERTIFICATE-----" }],
    ["[PA-012]", { shared_secret: "abc\n" }],
    ["[PA-013]", { secret_header_name: "Content-Length" }],
    ["[PA-032]", { extract_headers: [1] }],
    ["[PA-033] [PA-034]", { mcp_retry_methods: ["tools/delete"] }],
  ])("%s [PA-201] refuse %j: Kong answers 500 and its log says why", async (_row, settings) => {
    await using rig = await createKongRig(server, settings);
    const { client, upstream, log } = await rig.send();
    expect([client.status, upstream, rig.mock.requests.length]).toEqual([500, undefined, 0]);
    const [name] = Object.keys(settings);
    expect(log[0]?.text).toContain(`${name}: `);
  });

  it("[PA-035] take the whole example of the documents", async () => {
    await using rig = await createKongRig(
      server,
      {
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
      },
      { mock: { basePath: "/policy" } },
    );
    expect((await rig.send()).client.status).toBe(200);
  });

  it("[PA-012] take a rotated secret from Kong's vault after a minute", async () => {
    let passedMs = 0;
    const clock = { now: () => performance.now() + passedMs, wall: () => Date.now() + passedMs };
    await using local = await startLocalServer({ clock });
    const vault = new Map<string, string>();
    const secret = { header: "CLIENT-TOKEN", value: "rotated" };
    await using mock = await startMockPingAuthorize({ secret });
    using kong = createFakeKong({
      socket: local.socket,
      plugin: local.plugin,
      vault,
      config: {
        service_url: mock.url,
        shared_secret: "old",
        secret_header_name: secret.header,
        $refs: { shared_secret: "{vault://env/paz}" },
      },
    });
    const status = async () => (await kong.send({})).client.status;
    // PingAuthorize rejects the old secret; the vault has none yet, and is not asked before a minute is over.
    expect(await status()).toBe(502);
    vault.set("{vault://env/paz}", "rotated");
    expect(await status()).toBe(502);
    passedMs = 61_000;
    expect(await status()).toBe(200);
  });

  it("a certificate authority and a client certificate, as PEM", async () => {
    using authority = createAuthority("clients");
    using trusted = createCertificate("pingauthorize");
    const [ca, key] = [readFileSync(trusted.certFile, "utf8"), readFileSync(trusted.keyFile, "utf8")];
    const tls = {
      cert: ca,
      key,
      ca: readFileSync(authority.caFile, "utf8"),
      requestCert: true,
      rejectUnauthorized: true,
    };
    const client = authority.issue("kong");
    const withCertificate = { tls_ca_cert: ca, tls_client_cert: client.cert, tls_client_key: client.key };
    for (const [settings, status] of [
      [withCertificate, 200],
      [{ tls_ca_cert: ca }, 502],
      [{ tls_client_cert: client.cert, tls_client_key: client.key }, 502],
    ] as const) {
      await using rig = await createKongRig(server, settings, { mock: { tls } });
      expect([settings, (await rig.send()).client.status]).toEqual([settings, status]);
    }
  });
});

describe("calls of Kong's kit", () => {
  const reads = [
    "kong.client.get_ip",
    "kong.client.get_port",
    "kong.client.tls.get_full_client_certificate_chain",
    "kong.request.get_forwarded_host",
    "kong.request.get_forwarded_path",
    "kong.request.get_forwarded_port",
    "kong.request.get_forwarded_scheme",
    "kong.request.get_headers",
    "kong.request.get_http_version",
    "kong.request.get_method",
    "kong.request.get_raw_body",
    "kong.request.get_raw_query",
  ];

  it("[PA-216] are 12 to read a request and one to mark it, and one more for what the response phase needs", async () => {
    await using rig = await createKongRig(server, { skip_response_phase: true });
    const skipping = await rig.send();
    const marks = ["kong.ctx.shared.set", "kong.ctx.shared.set"];
    expect(skipping.calls("access").toSorted()).toEqual([...reads, ...marks].toSorted());
    expect(skipping.calls("response")).toEqual([]);
    await using full = await createKongRig(server);
    const passage = await full.send();
    expect(passage.calls("access")).toHaveLength(14);
    expect(passage.calls("response").toSorted()).toEqual([
      "kong.ctx.shared.get",
      "kong.ctx.shared.get",
      "kong.ctx.shared.set",
      "kong.response.exit",
      "kong.response.get_headers",
      "kong.response.get_status",
      "kong.service.response.get_raw_body",
    ]);
  });

  it("[PA-216] are one for all headers that are set, and one for each that is cleared", async () => {
    await using rig = await createKongRig(server, { skip_response_phase: true });
    rig.mock.onRequest(({ payload }) => ({
      json: { ...payload, headers: [{ host: "api.example.com" }, { "x-a": "1" }, { "x-b": "2" }] },
    }));
    const { calls } = await rig.send({ headers: { "x-gone": "1", "accept-encoding": "gzip" } });
    expect(calls("access")).toHaveLength(14 + 1 + 2);
  });
});
