import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSseDecoder } from "./decoder.ts";
import { bodyAfterPolicy, finalResponseOf, isEventStreamContentType, isJsonRpcResponse } from "./final-response.ts";

const response = '{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}';
const earlier = '{"jsonrpc":"2.0","id":0,"result":{}}';
const failure = '{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"Invalid Request"}}';
const notification = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}';
const request = '{"jsonrpc":"2.0","id":9,"method":"ping"}';

function stream(...data: string[]): string {
  return data.map((one) => `event: message\ndata: ${one}\n\n`).join("");
}

function seen(text: string, contentType: string | undefined = "text/event-stream", enableMcp = true) {
  const { extracted, text: body } = finalResponseOf({ enableMcp, contentType, body: Buffer.from(text) });
  return { extracted, body };
}

describe("what the policy gets to see", () => {
  it("[PA-178] is the data of the only event", () => {
    expect(seen(stream(response))).toEqual({ extracted: true, body: response });
  });

  it("[PA-178] is the last of several responses, result or error", () => {
    expect(seen(stream(earlier, response))).toEqual({ extracted: true, body: response });
    expect(seen(stream(earlier, failure))).toEqual({ extracted: true, body: failure });
  });

  it("[PA-179] skips notifications, requests and other data", () => {
    expect(seen(stream(notification, request, response))).toEqual({ extracted: true, body: response });
    for (const last of [notification, request, "not JSON", "{", "[]", "7", "", `[${response}]`]) {
      expect(seen(stream(earlier, response, last))).toEqual({ extracted: true, body: response });
    }
  });

  it("[PA-179] skips priming events and comments", () => {
    const text = `id: 1\ndata:\n\n${stream(response)}: bye\n\nid: 2\n\n`;
    expect(seen(text)).toEqual({ extracted: true, body: response });
  });

  it("[PA-180] is the body unchanged without a response in it", () => {
    for (const text of ["", response, "no fields\n\n", stream(notification, request), stream("not JSON"), "data"]) {
      expect(seen(text)).toEqual({ extracted: false, body: text });
    }
  });

  it("[PA-180] ignores an unfinished event", () => {
    expect(seen(`data: ${response}\n`)).toEqual({ extracted: false, body: `data: ${response}\n` });
    expect(seen(`${stream(earlier)}data: ${response}`)).toEqual({ extracted: true, body: earlier });
  });

  it("[PA-177, PA-180] is the body unchanged for any other content type", () => {
    for (const type of ["application/json", "text/event-streams", "text/plain", "", undefined]) {
      const text = stream(response);
      const found = finalResponseOf({ enableMcp: true, contentType: type, body: Buffer.from(text) });
      expect(found).toEqual({ extracted: false, text });
    }
  });

  it("[PA-177] is the body unchanged with MCP switched off", () => {
    expect(seen(stream(response), "text/event-stream", false)).toEqual({
      extracted: false,
      body: stream(response),
    });
  });

  it("[PA-177] knows an event stream by its media type, in any case and with parameters", () => {
    for (const type of ["text/event-stream", "Text/Event-Stream;charset=utf-8", " text/event-stream ; x=y"]) {
      expect(isEventStreamContentType(type)).toBe(true);
      expect(seen(stream(response), type).extracted).toBe(true);
    }
    for (const type of ["text/event-stream-x", "application/json", "text/event-stream,text/plain", "", undefined]) {
      expect(isEventStreamContentType(type)).toBe(false);
    }
  });

  it("follows the line rules of event streams", () => {
    const pretty = '{"jsonrpc":"2.0",\n"id":1,\n"result":{}}';
    expect(seen(`\u{feff}data:${response}\r\n\r\n`).body).toBe(response);
    expect(seen(`data: {"jsonrpc":"2.0",\rdata: "id":1,\r: x\rdata:"result":{}}\r\r`).body).toBe(pretty);
  });

  it("[PA-181] looks at one event at a time in a long stream", () => {
    const many = stream(...Array.from({ length: 20_000 }, (_, i) => notification.replace(":1}", `:${i}}`)));
    const body = Buffer.from(many + stream(response) + many);
    const found = finalResponseOf({
      enableMcp: true,
      contentType: "text/event-stream",
      body,
    });
    expect(found).toMatchObject({ extracted: true, text: response, start: many.length });
  });

  it("[PA-181] keeps no parsed events: a long stream fits into a small heap", async () => {
    /** Runs code over 300,000 events with 24 MB of heap; the stream itself is outside of it. */
    const run = (code: string): Promise<unknown> => {
      const event = JSON.stringify(`event: message\ndata: ${notification}\n\n`);
      const last = JSON.stringify(stream(response));
      const worker = new Worker(
        `import { parentPort } from "node:worker_threads";
         import { finalResponseOf } from ${JSON.stringify(new URL("final-response.ts", import.meta.url).href)};
         const event = Buffer.from(${event}), last = Buffer.from(${last});
         const body = Buffer.concat([Buffer.alloc(event.length * 300_000, event), last]);
         parentPort.postMessage(${code});`,
        { eval: true, resourceLimits: { maxOldGenerationSizeMb: 24, maxYoungGenerationSizeMb: 8 } },
      );
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      worker.once("message", resolve);
      worker.once("error", reject);
      return promise.finally(() => void worker.terminate());
    };
    await expect(
      run('finalResponseOf({ enableMcp: true, contentType: "text/event-stream", body }).text'),
    ).resolves.toBe(response);
    const keepsAll = 'body.toString().split("\\n\\n").filter(Boolean).map((text) => JSON.parse(text.slice(21))).length';
    await expect(run(keepsAll)).rejects.toThrow(/memory/u);
  });
});

describe("a JSON-RPC response", () => {
  it.each([response, failure, ` ${response}\n`, '{"id":"","result":{},"jsonrpc":"2.0"}'])("is %s", (text) => {
    expect(isJsonRpcResponse(Buffer.from(text))).toBe(true);
  });

  it.each([
    '{"jsonrpc":"2.0","id":1,"result":null}',
    '{"jsonrpc":"2.0","id":1,"result":"secret"}',
    '{"jsonrpc":"2.0","id":1,"error":"no"}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1}}',
    '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}',
  ])("is also what a careless client would read as one: %s", (text) => {
    expect(isJsonRpcResponse(Buffer.from(text))).toBe(true);
  });

  it.each([
    notification,
    request,
    "{}",
    '{"id":1,"result":{}}',
    '{"jsonrpc":"1.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","result":{}}',
    '{"jsonrpc":"2.0","id":null,"result":{}}',
    '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}',
    '{"jsonrpc":"2.0","id":1}',
    '{"jsonrpc":"2.0","id":1,"method":"x","result":{}}',
    `[${response}]`,
    "",
  ])("is not %j", (text) => {
    expect(isJsonRpcResponse(Buffer.from(text))).toBe(false);
  });
});

describe("the way back to the client", () => {
  const changed = '{"jsonrpc":"2.0","id":1,"result":{"tools":[1]}}';
  const eventStream = { contentType: "text/event-stream; charset=utf-8", denied: false };

  function after(text: string, result: Parameters<typeof bodyAfterPolicy>[2]) {
    const upstream = Buffer.from(text);
    const found = finalResponseOf({ enableMcp: true, contentType: "text/event-stream", body: upstream });
    const { body, from } = bodyAfterPolicy(upstream, found, result);
    return { body: body.toString(), from };
  }

  it("[PA-207] puts a changed response in place of the event's data and leaves all other bytes alone", () => {
    const before = `\u{feff}: hello\r\n\r\n${stream(notification, earlier)}`;
    const rest = `:x\rdata: ${notification}\r\runfinished`;
    const text = `${before}id: 7\r\ndata:${response}\r\nevent: message\r\nfoo: bar\r\n: c\r\n\r\n${rest}`;
    expect(after(text, { ...eventStream, body: changed })).toEqual({
      body: `${before}id: 7\r\ndata: ${changed}\r\nevent: message\r\nfoo: bar\r\n: c\r\n\r\n${rest}`,
      from: "spliced",
    });
  });

  it("[PA-207] replaces several data lines by as many as the new body needs", () => {
    const text = `data: {"jsonrpc":"2.0",\nid: 7\ndata: "id":1,\ndata: "result":{}}\n\n`;
    expect(after(text, { ...eventStream, body: changed }).body).toBe(`data: ${changed}\nid: 7\n\n`);
    expect(after(text, { ...eventStream, body: "{\n}" }).body).toBe("data: {\ndata: }\nid: 7\n\n");
  });

  it("[PA-207] sends the result's own body after a denial", () => {
    const denied = { body: '{"error":"no"}', contentType: "text/event-stream", denied: true };
    expect(after(stream(response), denied)).toEqual({ body: denied.body, from: "result" });
    expect(after(stream(response), { ...denied, body: response })).toEqual({
      body: response,
      from: "result",
    });
  });

  it("[PA-207] sends the result's own body if its content type is no longer an event stream", () => {
    for (const contentType of ["application/json", undefined]) {
      const result = { body: changed, contentType, denied: false };
      expect(after(stream(response), result)).toEqual({ body: changed, from: "result" });
    }
  });

  it("sends the original bytes if the policy changed nothing", () => {
    const text = `${stream(earlier, response)}: bye\n\n`;
    expect(after(text, { ...eventStream, body: response })).toEqual({ body: text, from: "upstream" });
    const invalid = Buffer.from([0xff, 0x00, 0xfe]);
    const found = finalResponseOf({ enableMcp: true, contentType: "text/plain", body: invalid });
    const back = bodyAfterPolicy(invalid, found, {
      body: found.text,
      contentType: "text/plain",
      denied: false,
    });
    expect(back).toEqual({ body: invalid, from: "upstream" });
  });

  it("sends the result's own body if nothing was extracted", () => {
    expect(after("data: x\n\n", { ...eventStream, body: "y" })).toEqual({ body: "y", from: "result" });
  });

  it("[PA-207] changes that one event and no other, for any body", () => {
    const line = fc.string({ unit: fc.constantFrom("{", '"', "\n", "\r", "é", "data: ", ":", " ") });
    const events = fc.array(fc.constantFrom(notification, earlier, response, "x"), { maxLength: 5 });
    fc.assert(
      fc.property(events, events, line, fc.constantFrom("\n", "\r\n"), (front, back, body, end) => {
        const text = stream(...front, response, ...back.filter((one) => one !== earlier && one !== response));
        const old = dataOf(text);
        const styled = text.replaceAll("\n", end);
        const now = dataOf(after(styled, { ...eventStream, body }).body);
        const normalised = body.replaceAll(/\r\n?/g, "\n");
        expect(now).toEqual(old.with(old.lastIndexOf(response), body === response ? response : normalised));
      }),
    );
  });

  function dataOf(text: string): string[] {
    const data: string[] = [];
    const decoder = createSseDecoder({
      maxEventBytes: 10_000,
      onEvent: (event) => data.push(event.data.toString()),
    });
    decoder.push(Buffer.from(text));
    return data;
  }
});
