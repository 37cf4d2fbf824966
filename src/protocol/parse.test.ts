import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { metadataOf } from "./metadata.ts";
import { defaultLimits } from "./message.ts";
import type { FailureReason, Message, ParseOutcome } from "./message.ts";
import { parse, parseBatch, parseMessage, parseText, peek } from "./parse.ts";
import type { ParseContext } from "./parse.ts";
import { revisionNames } from "./revisions.ts";

const enforcing: ParseContext = { revision: "2025-11-25", mode: "enforce" };
const observing: ParseContext = { revision: "2025-11-25", mode: "observe" };
const batching: ParseContext = { revision: "2025-03-26", mode: "enforce" };

function single(text: string, context = enforcing): Message {
  const outcome = parseText(text, context);
  if (!outcome.ok || outcome.form !== "single") throw new Error(`not one message: ${text} ${JSON.stringify(outcome)}`);
  return outcome.message;
}

function failure(outcome: ParseOutcome | ReturnType<typeof parseMessage>) {
  if (outcome.ok) throw new Error("expected a failure");
  return outcome.failure;
}

const reasonOf = (text: string, context = enforcing) => failure(parseText(text, context)).reason;

describe("kinds of message", () => {
  it("[SC-008] tells requests, notifications, results and errors apart and reads their fields", () => {
    expect(single('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')).toMatchObject({
      kind: "request",
      id: { key: "n:1", json: "1" },
      method: "tools/list",
    });
    expect(single('{"jsonrpc":"2.0","method":"notifications/initialized"}')).toMatchObject({
      kind: "notification",
      id: undefined,
      method: "notifications/initialized",
    });
    expect(single('{"jsonrpc":"2.0","id":"a","result":{}}')).toMatchObject({
      kind: "result",
      id: { key: "s:a" },
    });
    expect(single('{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}')).toMatchObject({
      kind: "error",
    });
  });

  it("[SC-015] accepts an error without id or with a null id", () => {
    for (const id of ["", '"id":null,']) {
      const message = single(`{"jsonrpc":"2.0",${id}"error":{"code":-32700,"message":"unreadable"}}`);
      expect([message.kind, message.id]).toEqual(["error", undefined]);
    }
  });

  it.each<[string, FailureReason]>([
    ['{"id":1,"method":"ping"}', "jsonrpc.missing"],
    ['{"jsonrpc":"1.0","id":1,"method":"ping"}', "jsonrpc.version"],
    ['{"jsonrpc":2.0,"id":1,"method":"ping"}', "jsonrpc.version"],
    ['{"jsonrpc":"2.00","id":1,"method":"ping"}', "jsonrpc.version"],
  ])("[SC-078] refuses a wrong jsonrpc member with the id echoed: %s", (text, reason) => {
    expect(failure(parseText(text, enforcing))).toMatchObject({ code: -32600, reason, id: { key: "n:1" } });
  });

  it.each<[string, FailureReason]>([
    ['{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}', "response.both"],
    ['{"jsonrpc":"2.0","id":1}', "response.neither"],
    ['{"jsonrpc":"2.0"}', "shape.empty"],
    ['{"jsonrpc":"2.0","id":1,"result":null}', "result.type"],
    ['{"jsonrpc":"2.0","id":1,"result":[]}', "result.type"],
    ['{"jsonrpc":"2.0","result":{}}', "response.id"],
    ['{"jsonrpc":"2.0","id":null,"result":{}}', "id.null"],
    ['{"jsonrpc":"2.0","id":1,"error":"no"}', "error.type"],
    ['{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}', "error.code"],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":"-32600","message":"m"}}', "error.code"],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}', "error.code"],
    ['{"jsonrpc":"2.0","id":1,"error":{"code":1}}', "error.message"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', "shape.mixed"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","error":{"code":1,"message":"m"}}', "shape.mixed"],
  ])("[SC-016, SC-079] gives each malformed response its own reason: %s", (text, reason) => {
    expect(failure(parseText(text, enforcing))).toMatchObject({ code: -32600, reason });
  });

  it.each<[string, FailureReason]>([
    ['{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', "params.type"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', "params.type"],
    ['{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', "params.type"],
    ['{"jsonrpc":"2.0","method":"notifications/x","params":1}', "params.type"],
    ['{"jsonrpc":"2.0","id":1,"method":5}', "method.type"],
    ['{"jsonrpc":"2.0","id":1,"method":null,"result":{}}', "method.type"],
    ['{"jsonrpc":"2.0","id":1,"method":""}', "method.empty"],
  ])("[SC-016, SC-080] refuses bad params and methods, and never takes them for a response: %s", (text, reason) => {
    expect(reasonOf(text)).toBe(reason);
  });

  it("[SC-011, SC-017] lets unknown members and unknown methods pass unchanged", () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"vendor/new","params":{"x":1},"extra":{"deep":[1]}}';
    const message = single(text);
    expect(message.method).toBe("vendor/new");
    expect(message.bytes.toString()).toBe(text);
  });

  it("[SC-094] takes the bare spelling `initialized` and invented methods as valid envelopes", () => {
    for (const method of ["initialized", "tools/nope", "notifications/nope"]) {
      expect(single(`{"jsonrpc":"2.0","method":"${method}"}`).method).toBe(method);
    }
  });
});

describe("ids", () => {
  const idOf = (id: string, context = enforcing) => single(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`, context).id;

  it("[SC-034, SC-035, SC-076] keeps 0, -1, the empty string and digits in quotes as separate ids", () => {
    const ids = ["0", "-1", '""', '"0"', "1", '"1"'];
    expect(new Set(ids.map((id) => idOf(id)?.key)).size).toBe(ids.length);
    for (const id of ids) expect(idOf(id)?.json).toBe(id);
  });

  it("[SC-034, SC-035, SC-077] keeps integers beyond 2^53 apart and echoes them digit for digit", () => {
    expect(idOf("9007199254740993")).toEqual({ key: "n:9007199254740993", json: "9007199254740993" });
    expect(idOf("-9007199254740993")).toEqual({ key: "n:-9007199254740993", json: "-9007199254740993" });
    expect(idOf("9007199254740992")?.key).not.toBe(idOf("9007199254740993")?.key);
  });

  it("[SC-077] refuses null, booleans, objects and arrays always, fractions when enforcing", () => {
    const request = (id: string) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`;
    expect(reasonOf(request("null"))).toBe("id.null");
    for (const id of ["true", "{}", "[1]"]) expect(reasonOf(request(id), observing)).toBe("id.type");
    expect(reasonOf(request("1.5"))).toBe("id.fractional");
    const observed = single(request("1.5"), observing);
    expect(observed.id?.json).toBe("1.5");
    expect(observed.diagnostics).toMatchObject([{ code: "id.fractional", severity: "warn" }]);
  });

  it("gives one key to the spellings of one number, and echoes the spelling", () => {
    expect(idOf("1.0")).toEqual({ key: "n:1", json: "1.0" });
    expect(idOf("1e2")).toEqual({ key: "n:100", json: "1e2" });
    expect(idOf("-0")?.key).toBe("n:0");
    expect(reasonOf('{"jsonrpc":"2.0","id":1e999,"method":"ping"}')).toBe("id.type");
  });

  it("gives one key to the spellings of one string", () => {
    expect(idOf('"a\\u0062"')).toEqual({ key: "s:ab", json: '"a\\u0062"' });
  });
});

describe("text that is not a message", () => {
  it.each<[string, FailureReason, number]>([
    ["", "json.empty", -32700],
    [" \n ", "json.empty", -32700],
    ["\ufeff{}", "json.bom", -32700],
    ["{", "json.syntax", -32700],
    ['{"a":1} {"b":2}', "json.syntax", -32700],
    ["not json", "json.syntax", -32700],
    ["null", "message.null", -32600],
    ["true", "message.boolean", -32600],
    ["1", "message.number", -32600],
    ['"x"', "message.string", -32600],
  ])("[SC-014, SC-093] answers %j with its own reason", (text, reason, code) => {
    expect(failure(parseText(text, enforcing))).toMatchObject({ reason, code });
  });

  it("[SC-086] refuses bytes that are not UTF-8", () => {
    const bytes = Buffer.concat([Buffer.from('{"jsonrpc":"2.0","method":"a'), Buffer.from([0xff]), Buffer.from('"}')]);
    expect(failure(parse(bytes, enforcing))).toMatchObject({ code: -32700, reason: "json.utf8" });
    expect(reasonOf('{"jsonrpc":"2.0","method":"a\ud800"}')).toBe("json.utf8");
  });

  it("[SC-018] reports size and limit before looking at the content", () => {
    const limits = { ...defaultLimits, maxBytes: 20 };
    const text = '{"jsonrpc":"2.0","method":';
    expect(failure(parse(Buffer.from(text), { ...enforcing, limits }))).toMatchObject({
      reason: "json.size",
      limit: { actual: text.length, allowed: 20 },
    });
  });

  it("[SC-013] reports where the JSON is invalid", () => {
    expect(failure(parseText('{"jsonrpc":"2.0",}', enforcing))).toMatchObject({ offset: 17 });
  });
});

describe("values at hand", () => {
  it("[SC-010, SC-093] parse one refuses an array, parse batch refuses anything else, each with its own reason", () => {
    const message = { jsonrpc: "2.0", id: 1, method: "ping" };
    expect(parseMessage(message, enforcing)).toMatchObject({ ok: true, message: { kind: "request" } });
    expect(failure(parseMessage([message], batching)).reason).toBe("message.array");
    expect(failure(parseBatch(message, batching)).reason).toBe("batch.expected");
    expect(parseBatch([message], batching)).toMatchObject({ ok: true, form: "batch" });
    expect(parseText(JSON.stringify(message), enforcing)).toMatchObject({ ok: true, form: "single" });
  });

  it("[SC-013] fails for values that are not JSON", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    for (const value of [undefined, cycle, 1n, () => 1, Symbol("x")]) {
      expect(failure(parseMessage(value, enforcing)).code).toBe(-32600);
    }
  });
});

describe("tricks that two readers understand differently", () => {
  it("[SC-087] refuses duplicate names when enforcing and reports them when observing", () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","name":"evil"}}';
    expect(failure(parseText(text, enforcing))).toMatchObject({
      code: -32600,
      reason: "json.duplicate-key",
      id: { key: "n:1" },
    });
    expect(single(text, observing).diagnostics).toMatchObject([{ code: "json.duplicate-key", severity: "warn" }]);
  });

  it("echoes no id when the id itself came twice", () => {
    const text = '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}';
    expect(failure(parseText(text, enforcing)).id).toBeUndefined();
  });

  it("refuses names that differ only by case from a protocol member", () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","Name":"evil"}}';
    expect(reasonOf(text)).toBe("json.case-variant");
    expect(single(text, observing).diagnostics).toMatchObject([{ code: "json.case-variant" }]);
  });

  it("[SC-087] refuses half a surrogate in what routing reads, and reports it elsewhere", () => {
    expect(reasonOf('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\\ud800"}}')).toBe(
      "json.lone-surrogate",
    );
    const message = single(
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"t":"\\udc00"}}}',
    );
    expect(message.diagnostics).toMatchObject([{ code: "json.lone-surrogate" }]);
  });

  it("[SC-020, SC-087] reads __proto__ and constructor as plain data", () => {
    const before = Object.getOwnPropertyNames(Object.prototype);
    const text =
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","__proto__":{"id":9},"params":{"name":"n","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}}';
    const message = single(text);
    expect(metadataOf(message)).toMatchObject({ target: { name: "n" }, id: { key: "n:1" } });
    expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(before);
    expect(Reflect.get({}, "polluted")).toBeUndefined();
  });

  it("[SC-087] survives depth 10,000 and a string of 50 MB with a limit error", () => {
    const deep = `{"jsonrpc":"2.0","method":"m","params":{"a":${"[".repeat(10_000)}${"]".repeat(10_000)}}}`;
    expect(failure(parseText(deep, enforcing))).toMatchObject({
      reason: "json.depth",
      limit: { allowed: 128 },
    });
    const long = Buffer.alloc(50 * 1024 * 1024, 0x61);
    expect(failure(parse(long, enforcing))).toMatchObject({
      reason: "json.size",
      limit: { actual: long.length },
    });
  });
});

describe("batches", () => {
  const request = (id: number, method = "tools/list") => `{"jsonrpc":"2.0","id":${id},"method":"${method}"}`;
  const members = (text: string, context = batching) => {
    const outcome = parseText(text, context);
    if (!outcome.ok || outcome.form !== "batch") throw new Error(`no batch: ${JSON.stringify(outcome)}`);
    return outcome.members;
  };

  it("[SC-029] are split in order, and an invalid member does not affect the others", () => {
    const found = members(`[${request(5)}, {"jsonrpc":"2.0","id":6}, ${request(7, "prompts/list")}]`);
    expect(found.map((member) => (member.ok ? member.message.id?.json : member.failure.reason))).toEqual([
      "5",
      "response.neither",
      "7",
    ]);
  });

  it("[SC-030] are rejected in every revision but 2025-03-26", () => {
    for (const revision of revisionNames) {
      const outcome = parseText(`[${request(1)}]`, { revision, mode: "enforce" });
      if (revision === "2025-03-26") expect(outcome).toMatchObject({ ok: true, form: "batch" });
      else expect(failure(outcome)).toMatchObject({ code: -32600, reason: "batch.unsupported" });
    }
  });

  it("[SC-031, SC-081] refuses the empty array, and initialize within a batch", () => {
    expect(failure(parseText("[]", batching))).toMatchObject({ code: -32600, reason: "batch.empty" });
    const [first, second] = members(`[${request(1)},${request(2, "initialize")}]`);
    expect(first?.ok).toBe(true);
    expect(second).toMatchObject({
      ok: false,
      failure: { code: -32600, reason: "batch.initialize", id: { key: "n:2" } },
    });
  });

  it("[SC-081] judges nested arrays and scalars per member, and counts against the limit", () => {
    const reasons = members(`[[${request(1)}],1,null,${request(2)}]`).map(
      (member) => !member.ok && member.failure.reason,
    );
    expect(reasons).toEqual(["batch.nested", "message.number", "message.null", false]);
    const many = `[${Array.from({ length: 101 }, (_, index) => request(index)).join(",")}]`;
    expect(failure(parseText(many, batching))).toMatchObject({
      reason: "batch.size",
      limit: { actual: 101, allowed: 100 },
    });
    expect(members(`[${Array.from({ length: 100 }, (_, index) => request(index)).join(",")}]`)).toHaveLength(100);
    expect(reasonOf("[1", batching)).toBe("json.syntax");
    expect(reasonOf(`[${request(1)},]`, batching)).toBe("json.syntax");
    expect(reasonOf(`[${request(1)}]x`, batching)).toBe("json.syntax");
  });

  it("[SC-092] must not mix requests with responses: a diagnostic when observing, refused when enforcing", () => {
    const mixed = `[${request(1)},{"jsonrpc":"2.0","id":2,"result":{}}]`;
    expect(reasonOf(mixed, batching)).toBe("batch.mixed");
    expect(parseText(mixed, { ...batching, mode: "observe" })).toMatchObject({
      ok: true,
      form: "batch",
      diagnostics: [{ code: "batch.mixed" }],
    });
  });
});

describe("one parser", () => {
  const anyJson = fc.oneof(
    fc.json(),
    fc.jsonValue().map((value) => JSON.stringify(value)),
    messageText(),
  );

  it("[SC-009] gives equal output for equal input, in any order", () => {
    fc.assert(
      fc.property(fc.array(anyJson, { maxLength: 6 }), fc.constantFrom(...revisionNames), (texts, revision) => {
        const context: ParseContext = { revision, mode: "enforce" };
        const forward = texts.map((text) => parseText(text, context));
        const backward = texts.toReversed().map((text) => parseText(text, context));
        expect(backward.toReversed()).toEqual(forward);
      }),
    );
  });

  it("[SC-021] the quick look agrees with the full parse on random input", () => {
    fc.assert(
      fc.property(anyJson, fc.constantFrom(...revisionNames), (text, revision) => {
        const bytes = Buffer.from(text.toWellFormed());
        const context: ParseContext = { revision, mode: "enforce" };
        const outcome = parse(bytes, context);
        const look = peek(bytes, context);
        expect(look !== undefined).toBe(outcome.ok);
        if (!outcome.ok || look === undefined) return;
        const all = outcome.form === "single" ? [outcome] : outcome.members;
        expect(look.isBatch).toBe(outcome.form === "batch");
        expect(look.messages.map(({ kind, method }) => [kind, method])).toEqual(
          all.map((member) => (member.ok ? [member.message.kind, member.message.method] : ["invalid", undefined])),
        );
      }),
      { numRuns: 500 },
    );
  });

  it("[SC-073] never throws, whatever the bytes and the revision", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
      messageText().map((text) => Buffer.from(text)),
    );
    fc.assert(
      fc.property(
        bytes,
        fc.constantFrom(...revisionNames, "unknown" as const),
        fc.boolean(),
        (input, revision, strict) => {
          const outcome = parse(input, { revision, mode: strict ? "enforce" : "observe" });
          const found = !outcome.ok ? [] : outcome.form === "single" ? [outcome] : outcome.members;
          for (const member of found) if (member.ok) expect(metadataOf(member.message).size).toBeGreaterThan(0);
          if (!outcome.ok) expect(outcome.failure.message.length).toBeGreaterThan(0);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("[SC-012, SC-073] keeps the bytes of every message as they came", () => {
    fc.assert(
      fc.property(messageText(), (text) => {
        const bytes = Buffer.from(text);
        const outcome = parse(bytes, enforcing);
        if (outcome.ok && outcome.form === "single") expect(outcome.message.bytes).toBe(bytes);
        expect(bytes.toString()).toBe(text);
      }),
    );
  });
});

/** Messages that are nearly always valid, with members in random order, and sometimes one too many or too few. */
function messageText(): fc.Arbitrary<string> {
  const id = fc.oneof(fc.integer(), fc.string(), fc.constantFrom(null, 1.5, true));
  const members = fc.record(
    {
      jsonrpc: fc.constantFrom("2.0", "2.0", "2.0", "1.0"),
      id,
      method: fc.constantFrom("tools/call", "ping", "notifications/cancelled", "x/y", ""),
      params: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 })), fc.constant([])),
      result: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 })),
      error: fc.record({ code: fc.integer(), message: fc.string() }),
    },
    { requiredKeys: ["jsonrpc"] },
  );
  return fc.tuple(members, fc.boolean()).map(([message, reversed]) => {
    const entries = Object.entries(message);
    return JSON.stringify(Object.fromEntries(reversed ? entries.toReversed() : entries));
  });
}
