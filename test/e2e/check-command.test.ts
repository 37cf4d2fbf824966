import { chmodSync, mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { getuid } from "node:process";

import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { headgate, testFolder } from "../support/headgate-command.ts";

const base = "upstream: { demo: true }\nadmin: false\nlisten: { port: 0 }\n";

describe("headgate check", () => {
  it.each([
    [
      "a missing certificate",
      "upstream: { demo: true }\nadmin: false\nlisten: { port: 0, tls: { certFile: nope.pem, keyFile: key.pem } }\n",
      /^c\.yaml:3:\d+ listen\.tls\.certFile: cannot read .*nope\.pem: no such file$/mu,
    ],
    [
      "a missing certificate of the upstream",
      "routes: { a: { upstream: { url: https://x.example/mcp, tls: { caFile: nope.pem } } } }\nadmin: false\nlisten: { port: 0 }\n",
      /^c\.yaml:1:\d+ routes\.a\.upstream\.tls\.caFile: cannot read .*nope\.pem: no such file$/mu,
    ],
    [
      "a certificate that is none",
      "upstream: { demo: true }\nadmin: false\nlisten: { port: 0, tls: { certFile: c.yaml, keyFile: c.yaml } }\n",
      /^c\.yaml:3:\d+ listen\.tls\.certFile: has no PEM block "BEGIN CERTIFICATE"$/mu,
    ],
    [
      "certificate and key the wrong way round",
      "upstream: { demo: true }\nadmin: false\nlisten: { port: 0, tls: { certFile: pem.key, keyFile: pem.crt } }\n",
      /^c\.yaml:3:\d+ listen\.tls\.certFile: has no PEM block .*; `certFile` and `keyFile` are the wrong way round$/mu,
    ],
    [
      "a folder for the audit file",
      `${base}audit: { file: . }\n`,
      /^c\.yaml:4:\d+ audit\.file: .* is a folder; name a file in it$/mu,
    ],
    [
      "a command line in one string of a client's configuration",
      "mcpServers: { Some Server: { command: npx -y some-server } }\nadmin: false\nlisten: { port: 0 }\n",
      /^c\.yaml:1:\d+ mcpServers\["Some Server"\]\.command: is a whole command line/mu,
    ],
    [
      "a missing lock file",
      `${base}drift: { lock: headgate.lock.json }\n`,
      /^c\.yaml:4:\d+ drift\.lock: cannot read .*headgate\.lock\.json: no such file; `headgate drift approve` writes it$/mu,
    ],
    [
      "a broken lock file",
      `${base}drift: { lock: c.yaml }\n`,
      /^c\.yaml:4:\d+ drift\.lock: .*; `headgate drift approve` writes one$/mu,
    ],
    [
      "a missing audit folder",
      `${base}audit: { file: no/such/audit.ndjson }\n`,
      /^c\.yaml:4:\d+ audit\.file: the folder .*no\/such does not exist; create it$/mu,
    ],
    [
      "a missing folder of the socket",
      "upstream: { demo: true }\nadmin: false\nlisten: { unixSocket: no/such/x.sock }\n",
      /^c\.yaml:3:\d+ listen\.unixSocket: the folder .*no\/such does not exist; create it$/mu,
    ],
    [
      "a command line in one string",
      "upstream: { command: npx -y some-server }\nadmin: false\nlisten: { port: 0 }\n",
      /^c\.yaml:1:\d+ upstream\.command: is a whole command line.*write command: npx, args: \["-y","some-server"\]$/mu,
    ],
    [
      "a missing working directory",
      "upstream: { command: node, cwd: no-such }\nadmin: false\nlisten: { port: 0 }\n",
      /^c\.yaml:1:\d+ upstream\.cwd: there is no folder /mu,
    ],
  ])("refuses %s with its place, as run does", async (_, text, expected) => {
    using folder = testFolder();
    folder.write("c.yaml", text);
    folder.write("key.pem", "");
    folder.write("pem.key", "-----BEGIN PRIVATE KEY-----\n");
    folder.write("pem.crt", "-----BEGIN CERTIFICATE-----\n");
    for (const args of [
      ["check", "c.yaml"],
      ["run", "c.yaml"],
    ]) {
      const { exitCode, stdout, stderr } = await headgate(args, { cwd: folder.path });
      expect([args[0], exitCode, stdout]).toEqual([args[0], 2, ""]);
      expect(stderr).toMatch(expected);
      expect(stderr).not.toMatch(/\n\s+at /u);
    }
    expect(await headgate(["check", "--only-file", "c.yaml"], { cwd: folder.path })).toMatchObject({ exitCode: 0 });
  });

  it("warns of what will not work later, and run does too", async () => {
    using folder = testFolder();
    folder.write(
      "headgate.yaml",
      `routes: { a: { upstream: { command: no-such-program } }, b: { upstream: { command: "A=1 node", args: [x] } } }\nadmin: false\nlisten: { port: 0 }\nrecord: { file: no/such/x.sqlite }\n`,
    );
    const expected = [
      /^headgate\.yaml:4:\d+ record\.file: nothing will be recorded: the folder .* does not exist; create it \(warning\)$/mu,
      /^headgate\.yaml:1:\d+ routes\.a\.upstream\.command: no command `no-such-program`: .* \(warning\)$/mu,
      /^headgate\.yaml:1:\d+ routes\.b\.upstream\.command: .*; variables such as A belong in `env` \(warning\)$/mu,
    ];
    const { exitCode, stdout, stderr } = await headgate(["check"], { cwd: folder.path });
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining("ok: 2 routes")]);
    for (const warning of expected) expect(stderr).toMatch(warning);
    await using gateway = await startGateway(["run"], { cwd: folder.path });
    for (const warning of expected) expect(gateway.process.output()).toMatch(warning);
  });

  it("warns of ports that are taken", async () => {
    const servers = [createServer(), createServer()];
    const ports: number[] = [];
    for (const server of servers) {
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = server.address();
      ports.push(address === null || typeof address === "string" ? 0 : address.port);
    }
    const [main, admin] = ports;
    using folder = testFolder();
    folder.write("c.yaml", `upstream: { demo: true }\nlisten: { port: ${main} }\nadmin: { port: ${admin} }\n`);
    const { exitCode, stderr } = await headgate(["check", "c.yaml"], { cwd: folder.path });
    for (const server of servers) server.close();
    expect(exitCode).toBe(0);
    expect(stderr).toContain(
      `listen.port: 127.0.0.1:${main} is in use by another process now; choose another with --port`,
    );
    expect(stderr).toContain(
      `admin.port: 127.0.0.1:${admin} is in use by another process now; choose another with --admin-port`,
    );
  });

  it.skipIf(getuid?.() === 0)("warns of folders that this user may not write to", async () => {
    using folder = testFolder();
    mkdirSync(`${folder.path}/locked`);
    chmodSync(`${folder.path}/locked`, 0o500);
    folder.write("c.yaml", `${base}record: { file: locked/x.sqlite }\n`);
    const { stderr } = await headgate(["check", "c.yaml"], { cwd: folder.path });
    expect(stderr).toContain("permission denied");
  });
});
