import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { secretCorpus, secretDetectors as detectors } from "../../test/support/secret-corpus.ts";
import { hasPlaceholder } from "./plain-text.ts";
import { holdsNoSecret } from "./prefilter.ts";
import { createRedactor, type RedactorOptions } from "./redactor.ts";

function redactor(options: Partial<RedactorOptions> = {}) {
  return createRedactor({ detectors, key: Buffer.from("of this capture"), ...options });
}

function redacted(value: unknown, options: Partial<RedactorOptions> = {}): unknown {
  return JSON.parse(redactor(options).json(JSON.stringify(value)).text);
}

const placeholder = expect.stringMatching(/^\[redacted:[0-9a-f]{12}\]$/u) as unknown;

describe("redaction of messages", () => {
  it("leaves a message without secrets byte for byte as it is", () => {
    const text = '{ "jsonrpc":"2.0", "id":12345678901234567890,"params":{"_meta":{"progressToken":7}} }';
    expect(redactor().json(text)).toEqual({ text, count: 0, secrets: [] });
  });

  it("replaces the value of a secret name, whatever it looks like", () => {
    const args = {
      Password: "x",
      api_key: 12,
      nested: { clientSecret: { a: ["b", true, null] } },
      city: "Bern",
    };
    expect(redacted({ params: { arguments: args } })).toEqual({
      params: {
        arguments: {
          Password: placeholder,
          api_key: placeholder,
          nested: { clientSecret: { a: [placeholder, true, null] } },
          city: "Bern",
        },
      },
    });
  });

  it.each([
    ..."password2 password_confirmation newPasswordRepeat passwords db_pass dbPass api_keys accessTokens".split(" "),
    ..."SecretString SecretBinary clientSecrets privateKey2 PASSWD_1 root-pass masterKey refresh_tokens".split(" "),
  ])("replaces the value of %s: a suffix or a plural does not make a secret harmless", (name) => {
    expect(redacted({ params: { arguments: { [name]: "hunter2" } } })).toEqual({
      params: { arguments: { [name]: placeholder } },
    });
  });

  it.each(["bypass", "compass", "maxTokens", "inputTokens", "nextToken", "passenger", "keyboard", "author"])(
    "leaves the value of %s alone",
    (name) => {
      const message = { params: { arguments: { [name]: "north" } } };
      expect(redacted(message)).toEqual(message);
    },
  );

  it.each([
    "mysql --password hunter2 -h db",
    "tool --api-key hunter2",
    "curl -u ann:hunter2 https://example.com",
    "curl --user ann:hunter2",
    "<password>hunter2</password>",
    '<ns:Password type="text">hunter2</ns:Password>',
    "https://x.blob.example.net/a?sv=1&sig=hunter2hunter2%3D",
    "https://s3.example.com/a?X-Amz-Credential=a&X-Amz-Signature=hunter2hunter2",
  ])("hides the secret in the text %s, with the quick test in front too", (text) => {
    const json = JSON.stringify({ params: { arguments: { note: text } } });
    const bytes = Buffer.from(json);
    const quick = redactor({ prefilter: holdsNoSecret });
    for (const clean of [redactor().json(json).text, quick.jsonBytes(bytes, 0, bytes.length)?.text])
      expect(clean).not.toContain("hunter2");
  });

  it.each([
    [{ name: "password", value: "hunter2" }],
    [{ value: "hunter2", name: "DB_PASSWORD" }],
    [{ key: "apiKey", type: "text", value: ["hunter2"] }],
    [{ header: "Authorization", value: "hunter2" }],
  ])("hides the value of a pair that names a secret: %j", (pair) => {
    expect(JSON.stringify(redacted({ params: { arguments: { fields: [pair] } } }))).not.toContain("hunter2");
  });

  it("leaves other pairs alone", () => {
    const message = { params: { arguments: [{ name: "city", value: "Bern" }], name: "password-reset" } };
    expect(redacted(message)).toEqual(message);
  });

  it("hashes a bounded number of secrets in one text, and still hides the rest", () => {
    const text = Array.from({ length: 1500 }, (_, index) => `password=hunter2-${index}`).join(" ");
    const clean = (redacted({ params: { text } }) as { params: { text: string } }).params.text;
    expect(clean).not.toContain("hunter2");
    expect(new Set(clean.split(" ")).size).toBe(1001);
    expect(redacted({ params: { text: "password=hunter2" } })).not.toEqual({
      params: { text: "password=[redacted:000000000000]" },
    });
  });

  it.each(secretCorpus)(
    "[SC-069] leaves nothing of a secret in params, result, error or notification: %s",
    (_, secret) => {
      const places = [
        { method: "tools/call", params: { name: "t", arguments: { note: `it is ${secret} !` } } },
        { result: { content: [{ type: "text", text: JSON.stringify({ deep: [`a ${secret}`] }) }] } },
        { error: { code: 1, message: `no: ${secret}`, data: { tried: [secret] } } },
        { method: "notifications/message", params: { data: `line\n${secret}\n` } },
        { params: { arguments: { [secret]: 1 } } },
      ];
      for (const place of places) {
        const { text, count } = redactor().json(JSON.stringify({ jsonrpc: "2.0", ...place }));
        expect(text).not.toContain(JSON.stringify(secret).slice(1, -1));
        expect(count).toBeGreaterThan(0);
      }
      // Escapes are another way to write the same text.
      const escaped = Array.from(secret, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
      expect(redactor().json(`{"params":{"x":"${escaped}"}}`).text).not.toContain(escaped);
      expect(redactor().text(`stderr says ${secret}`).text).not.toContain(secret);
      expect(redactor().text(`/mcp?x=1&token=${encodeURIComponent(secret)}`).text).not.toContain(
        encodeURIComponent(secret),
      );
    },
  );

  /** Not web tokens: their parts are long, and looking for one behind each underscore would take too long. */
  const isJoinable = (secret: string): boolean => !secret.startsWith("eyJ");
  const encodings: readonly (readonly [string, (secret: string) => string])[] = [
    ["in a URL", (secret) => `https://h.example/cb?next=x%3D${secret}`],
    ["in a URL in a URL", (secret) => `https://h.example/cb?next=https%3a%2f%2fx%3fk%3d${secret}%26y%3D1`],
    ["encoded twice", (secret) => `https://h.example/cb?next=x%253D${secret}`],
    ["behind an escaped line feed", (secret) => String.raw`first\n${secret}`],
    ["behind an escape of JSON", (secret) => String.raw`k\u003d${secret}`],
    ["joined to a name", (secret) => (isJoinable(secret) ? `read_${secret}` : secret)],
  ];
  const tokens = secretCorpus.filter(([kind]) => /(?:token|key)/iu.test(kind) && !kind.includes("private"));

  it.each(
    encodings.flatMap(([where, write]) =>
      tokens.map(([kind, secret]) => ({ kind, where, text: write(secret), secret })),
    ),
  )("[SC-069] finds a $kind $where", ({ text, secret }) => {
    for (const clean of [redactor().text(text).text, redactor().json(JSON.stringify({ text })).text]) {
      expect(clean).not.toContain(secret);
      expect(clean).toContain("[redacted:");
    }
    const bytes = Buffer.from(JSON.stringify({ text }));
    expect(redactor({ prefilter: holdsNoSecret }).jsonBytes(bytes, 0, bytes.length)?.text).not.toContain(secret);
  });

  it.each([
    "https://h.example/cb?next=https%3A%2F%2Fh%3Faccess_token%3DHIDDEN-1",
    "https://h.example/cb?next=https%3a%2f%2fh%3fa%3db%26api_key%3dHIDDEN-1",
    "https://h.example/cb?next=%2Fx%253Fpassword%253DHIDDEN-1",
    "https://h.example/cb?next=https%3A%2F%2Fann%3AHIDDEN-1%40h.example%2Fx",
    "x?authorization%3DBearer%20HIDDEN-1",
    "header%3D%22Bearer%20HIDDEN-1-and-more%22",
  ])("[SC-069] finds what is named in an encoded URL: %s", (text) => {
    for (const clean of [redactor().text(text).text, redactor().json(JSON.stringify({ [text]: text })).text])
      expect(clean).not.toContain("HIDDEN");
    const bytes = Buffer.from(JSON.stringify({ text }));
    expect(redactor({ prefilter: holdsNoSecret }).jsonBytes(bytes, 0, bytes.length)?.text).not.toContain("HIDDEN");
  });

  const spelled: readonly (readonly [string, string])[] = [
    ["JSON in a log line", `body=${JSON.stringify({ password: "HIDDEN" })}`],
    ["JSON in JSON in a log line", `body=${JSON.stringify({ b: JSON.stringify({ password: "HIDDEN" }) })}`],
    ["a name with an escape", String.raw`body={"\u0070assword":"HIDDEN"}`],
    ["a name in percent-encoding", "https://h.example/?p%61ssword=HIDDEN"],
    ["a URL as PHP escapes it", String.raw`got {"url":"https:\/\/ann:HIDDEN@h.example\/"}`],
    ["a URL as Go escapes it", String.raw`got {"url":"https://h.example?a=1\u0026sig=HIDDEN-1234"}`],
    [
      "a private key in JSON",
      String.raw`{"private_key":"-----BEGIN PRIVATE KEY-----\nHIDDEN\n-----END PRIVATE KEY-----"} x`,
    ],
    ["a URL whose password has an @", "postgres://ann:p@ssHIDDEN@db.example/x"],
    ["double quotes", 'password="two words, HIDDEN" next'],
    ["single quotes", "password='it is; HIDDEN' next"],
    ["quotes that do not end", 'password="two words HIDDEN'],
    ["an escaped quote", String.raw`password="a\"HIDDEN"`],
    ["an arrow", "'password' => 'HIDDEN'"],
    ["another sign", "password := HIDDEN"],
    ["a block of YAML", "password: |\n  HIDDEN\n  HIDDEN\nuser: ann"],
    ["a folded block of YAML", "password: >-\n    HIDDEN\nuser: ann"],
    ["CDATA", "<password>\n<![CDATA[HIDDEN]]></password>"],
    ["another scheme", "Authorization: token HIDDEN"],
    ["Digest", 'Authorization: Digest username="ann", response="HIDDEN"'],
    ["Negotiate", "Proxy-Authorization: Negotiate HIDDEN"],
    ["several cookies", "Cookie: a=1; sid=HIDDEN"],
    ["a cookie that is set", "Set-Cookie: sid=HIDDEN; Path=/"],
  ];

  it.each(spelled)("[SC-069] finds what is named in text: %s", (_, text) => {
    for (const clean of [
      redactor().text(text).text,
      redactor().json(JSON.stringify({ text })).text,
      redactor().json(JSON.stringify({ text: JSON.stringify({ text }) })).text,
    ])
      expect(clean).not.toContain("HIDDEN");
    const bytes = Buffer.from(JSON.stringify({ text }));
    expect(redactor({ prefilter: holdsNoSecret }).jsonBytes(bytes, 0, bytes.length)?.text).not.toContain("HIDDEN");
  });

  it.each([
    [["authorization", "HIDDEN"]],
    [{ rawHeaders: ["Accept", "text/html", "X-Api-Key", "HIDDEN"] }],
    [
      {
        headers: [
          ["Accept", "text/html"],
          ["Authorization", "HIDDEN"],
        ],
      },
    ],
    [{ k: "password", v: "HIDDEN" }],
    [{ id: "password", label: "password", value: "HIDDEN" }],
    [{ value: "HIDDEN", name: "token" }],
  ])("[SC-069] finds the value of a pair: %j", (value) => {
    expect(redactor().json(JSON.stringify(value)).text).not.toContain("HIDDEN");
  });

  it("keeps pairs and lists without secrets", () => {
    const value = { fields: ["password", "user", "city"], headers: ["accept", "text/html"], pair: ["a", "b"] };
    expect(redacted(value)).toEqual(value);
  });

  const asEscapes = (text: string): string =>
    Array.from(text, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  const encoders: Readonly<Record<string, (text: string) => string>> = {
    log: (text) => `level=info body=${JSON.stringify({ text })}`,
    php: (text) => JSON.stringify({ text }).replaceAll("/", String.raw`\/`),
    unicode: (text) => `at {"x":"${asEscapes(text)}"}`,
    url: (text) => `next=${encodeURIComponent(text)}`,
    text: (text) => `it says ${text}!`,
  };
  const decodedAll = (text: string): string => {
    const unescaped = text.replaceAll(
      /\\u([\da-f]{4})|%([2-7][\da-f])|\\(.)/giu,
      (_, code: string | undefined, byte: string | undefined, plain = "") =>
        plain || String.fromCharCode(Number.parseInt(code ?? byte ?? "", 16)),
    );
    return unescaped === text ? text : decodedAll(unescaped);
  };

  it("[SC-069] finds secrets however they are encoded, also one in another", () => {
    const encoded = fc
      .array(fc.constantFrom(...Object.keys(encoders)), { maxLength: 4 })
      .map((names) => names.map((name) => encoders[name] ?? String));
    fc.assert(
      fc.property(encoded, fc.constantFrom(...tokens), (encode, [, secret]) => {
        const text = encode.reduce((inner, one) => one(inner), secret);
        expect(decodedAll(text)).toContain(secret);
        for (const clean of [redactor().text(text).text, redactor().json(JSON.stringify({ text })).text])
          expect(decodedAll(clean)).not.toContain(secret);
      }),
    );
  });

  it.each([
    ["text", Buffer.from("# of the app\nPASSWORD=HIDDEN\nCITY=Bern\n")],
    ["text that is not UTF-8", Buffer.from("ville=Gen\u00e8ve\nPASSWORD=HIDDEN\nCITY=Bern\n", "latin1")],
    ["JSON", Buffer.from(JSON.stringify({ password: "HIDDEN", city: "Bern" }))],
  ])("[SC-069] redacts %s in a blob, and keeps the rest", (_, file) => {
    const bytes = Buffer.from(
      JSON.stringify({ result: { contents: [{ uri: "file:///x", blob: file.toString("base64") }] } }),
    );
    const clean = redactor({ prefilter: holdsNoSecret }).jsonBytes(bytes, 0, bytes.length)?.text ?? "{}";
    const { result } = JSON.parse(clean) as { result: { contents: { blob: string }[] } };
    const decoded = Buffer.from(result.contents[0]?.blob ?? "", "base64").toString("latin1");
    expect(decoded).not.toContain("HIDDEN");
    expect(decoded).toContain("Bern");
  });

  it("keeps a blob without secrets", () => {
    const text = JSON.stringify({ blob: Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 254]).toString("base64") });
    expect(redactor().json(text)).toEqual({ text, count: 0, secrets: [] });
  });

  it("[SC-069] gives equal secrets equal placeholders, different ones for other secrets and captures", () => {
    const token = `ghp_${"a1B2".repeat(9)}`;
    const value = { a: token, password: token, text: `use ${token}!`, b: "AKIAIOSFODNN7EXAMPLE" };
    const first = redacted(value) as Record<string, string>;
    expect(first["password"]).toBe(first["a"]);
    expect(first["text"]).toBe(`use ${first["a"]}!`);
    expect(first["b"]).not.toBe(first["a"]);
    expect(redacted(value, { key: Buffer.from("another") })).not.toEqual(first);
  });

  it("[SC-069] leaves JSON Schemas unchanged", () => {
    const schema = {
      type: "object",
      properties: { password: { type: "string", description: "of the user" } },
    };
    const tools = { result: { tools: [{ name: "login", inputSchema: schema, outputSchema: schema }] } };
    expect(redacted(tools)).toEqual(tools);
    const question = { method: "elicitation/create", params: { requestedSchema: schema } };
    expect(redacted(question)).toEqual(question);
    // An argument that is only called so is a value like others.
    expect(redacted({ params: { arguments: { inputSchema: { password: "x" } } } })).toEqual({
      params: { arguments: { inputSchema: { password: placeholder } } },
    });
  });

  it("takes names and places of the configuration", () => {
    const value = {
      params: { arguments: { ssn: "1", people: [{ born: "a" }, { born: "b" }], "Shoe-Size": 44 } },
    };
    expect(redacted(value, { paths: ["/params/arguments/people/*/born"], keys: ["shoeSize"] })).toEqual({
      params: {
        arguments: {
          ssn: "1",
          people: [{ born: placeholder }, { born: placeholder }],
          "Shoe-Size": placeholder,
        },
      },
    });
  });

  it("redacts JSON inside a text", () => {
    const inner = JSON.stringify({ user: "ann", token: "abc" });
    const out = redacted({ result: { content: [{ type: "text", text: inner }] } }) as {
      result: { content: { text: string }[] };
    };
    expect(JSON.parse(out.result.content[0]?.text ?? "")).toEqual({ user: "ann", token: placeholder });
  });

  it("stays JSON, and changes nothing the second time", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(...secretCorpus.map(([, secret]) => secret)), (json, secret) => {
        const once = redactor().json(`{"a":${json},"b":${JSON.stringify(secret)}}`).text;
        const parsed = JSON.parse(once) as { a: unknown; b: string };
        expect(hasPlaceholder(parsed.b)).toBe(true);
        expect(redactor().json(once).text).toBe(once);
      }),
      { numRuns: 200 },
    );
  });
});

describe("redaction of headers", () => {
  it("[SC-069] keeps no credentials and no unknown headers, and treats Mcp-Param-* like arguments", () => {
    const secret = "AKIAIOSFODNN7EXAMPLE";
    const { headers, count } = redactor({ headers: ["x-team", "authorization"] }).headers(
      {
        authorization: "Bearer abcdefgh",
        cookie: "a=b",
        "mcp-session-id": "s",
        "x-unknown": "u",
        "x-team": "blue",
        accept: "application/json",
        "mcp-param-region": "eu",
        "mcp-param-password": "hunter2",
        "mcp-param-key": `=?base64?${Buffer.from(secret).toString("base64")}?=`,
        "mcp-param-born": "1970-01-01",
      },
      ["1970-01-01"],
    );
    expect(headers).toEqual({
      "x-team": "blue",
      accept: "application/json",
      "mcp-param-region": "eu",
      "mcp-param-password": placeholder,
      "mcp-param-key": placeholder,
      "mcp-param-born": placeholder,
    });
    expect(count).toBe(3);
  });
});

describe("redaction of plain text", () => {
  it.each([
    ["password=hunter2 next", "password=", " next"],
    ["Authorization: Bearer abc.def-ghi and so on", "Authorization: Bearer ", " and so on"],
    ["sent Bearer abcdefghijkl.", "sent Bearer ", ""],
    ["postgres://ann:pw@db/x", "postgres://", "@db/x"],
    ["https://db.example/a?view=full&access_token=xyzxyz&b=1", "https://db.example/a?view=full&access_token=", "&b=1"],
    ["see:https://db.example/a?access_token=xyzxyz", "see:https://db.example/a?access_token=", ""],
  ])("replaces the value in %s", (text, before, behind) => {
    const clean = redactor().text(text).text;
    expect(clean.startsWith(`${before}[redacted:`)).toBe(true);
    expect(clean.endsWith(`]${behind}`)).toBe(true);
  });

  it("takes out what the configuration knows to be secret", () => {
    const known = (text: string) => text.replaceAll("of-the-config", "(secret)");
    expect(redactor({ known }).text("it is of-the-config").text).toBe("it is (secret)");
    expect(redactor({ known }).json('{"a":"of-the-config"}').text).toBe('{"a":"(secret)"}');
  });
});
