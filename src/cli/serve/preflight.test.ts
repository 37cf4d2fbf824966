import { readFileSync } from "node:fs";
import { generateKeyPairSync } from "node:crypto";

import { describe, expect, it } from "vitest";

import { createCertificate } from "../../../test/support/certificate.ts";
import { testFolder } from "../../../test/support/headgate-command.ts";
import { type ConfigInput } from "../../config/schema.ts";
import { parseConfig } from "../../config/load.ts";
import { formatPath } from "../../config/issues.ts";
import { preflight } from "./preflight.ts";

function findings(input: ConfigInput, kind: "problems" | "warnings"): readonly string[] {
  const parsed = parseConfig({ admin: false, ...input });
  if (!parsed.ok) throw new Error(parsed.problems.map(({ message }) => message).join("\n"));
  return preflight(parsed.config, process.env)[kind].map(({ path, message }) => `${formatPath(path)}: ${message}`);
}

describe("certificate and key", () => {
  const options = { type: "pkcs8", format: "pem" } as const;
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const encrypted = privateKey.export({ ...options, cipher: "aes-256-cbc", passphrase: "x" }).toString();
  using certificate = createCertificate("localhost");
  const [cert, key] = [readFileSync(certificate.certFile, "utf8"), readFileSync(certificate.keyFile, "utf8")];
  const cutOff = (pem: string): string => pem.slice(0, pem.length / 2);

  it.each<[what: string, cert: string, key: string, problem: RegExp | undefined]>([
    ["that belong together are fine", cert, key, undefined],
    [
      "that do not belong together",
      cert,
      privateKey.export(options).toString(),
      /keyFile: is the key of another certificate/u,
    ],
    ["with a certificate that is cut off", cutOff(cert), key, /certFile: the certificate is damaged or cut off/u],
    ["with a key that is cut off", cert, cutOff(key), /keyFile: the key is damaged or cut off/u],
    ["with an encrypted key", cert, encrypted, /keyFile: the key is encrypted; decrypt it/u],
    ["the wrong way round", key, cert, /certFile: has no PEM block .*the wrong way round/u],
  ])("%s", (_, certText, keyText, problem) => {
    using folder = testFolder();
    const tls = { certFile: folder.write("cert.pem", certText), keyFile: folder.write("key.pem", keyText) };
    const found = findings({ upstream: { demo: true }, listen: { tls } }, "problems");
    expect(found).toEqual(problem === undefined ? [] : [expect.stringMatching(problem)]);
  });
});

describe("a command line in one string", () => {
  it.each([
    ["npx -y server", 'write command: npx, args: ["-y","server"]'],
    ["A=1 B=2 npx -y server", 'write command: npx, args: ["-y","server"], and A, B in `env`'],
    ["A=1 server", "write command: server, and A in `env`"],
  ])("%s is taken apart", (command, expected) => {
    expect(findings({ upstream: { command } }, "problems")).toEqual([
      `upstream.command: is a whole command line, and no shell splits it; ${expected}`,
    ]);
  });
});

describe("a program that is missing", () => {
  it("is named once, whatever views its route has", () => {
    const upstreams = { notes: { command: "no-such-program" }, files: { demo: true } } as const;
    const views = { triage: { tools: ["notes__read"] }, guests: { tools: ["files__*"] } };
    expect(findings({ routes: { desk: { upstreams, views } } }, "warnings")).toEqual([
      "routes.desk.upstreams.notes.command: no command `no-such-program`: not in PATH, or not executable",
    ]);
  });
});

describe("the file of recordings", () => {
  it("may be new, empty or a database, but no other kind of file", () => {
    using folder = testFolder();
    const files = {
      new: `${folder.path}/new.sqlite`,
      empty: folder.write("empty.sqlite", ""),
      database: folder.write("database.sqlite", `SQLite format 3\0${"\0".repeat(84)}`),
      text: folder.write("text.sqlite", "SQLite"),
    };
    const found = Object.entries(files).map(([name, file]) => {
      const warnings = findings({ upstream: { demo: true }, record: { file } }, "warnings");
      return [name, warnings.map((warning) => warning.replace(file, "FILE"))];
    });
    const problem =
      "record.file: nothing will be recorded: FILE is another kind of file; name one that does not exist yet";
    expect(Object.fromEntries(found)).toEqual({ new: [], empty: [], database: [], text: [problem] });
  });
});

describe("a script", () => {
  const program = process.execPath;

  it.each([
    [["missing.js"], "upstream.args[0]: there is no file FOLDER/missing.js"],
    [["--max-old-space-size=99", "missing.mjs"], "upstream.args[1]: there is no file FOLDER/missing.mjs"],
    [["there.js"], undefined],
    [["--import", "missing.js", "there.js"], undefined],
    [["-e", "1"], undefined],
    [["missing"], undefined],
  ])("%j", (args, expected) => {
    using folder = testFolder();
    folder.write("there.js", "");
    const found = findings({ upstream: { command: program, args, cwd: folder.path } }, "warnings");
    expect(found.map((warning) => warning.replace(folder.path, "FOLDER").replace(/;.*/u, ""))).toEqual(
      expected === undefined ? [] : [expected],
    );
  });
});

describe.skipIf(process.platform === "win32")("the path of a Unix socket", () => {
  it("may not be that of another file", () => {
    using folder = testFolder();
    const unixSocket = folder.write("notes.txt", "notes");
    expect(findings({ upstream: { demo: true }, listen: { unixSocket } }, "problems")).toEqual([
      `listen.unixSocket: ${unixSocket} exists and is not a socket; delete it, or choose another path`,
    ]);
  });
});
