import { describe, expect, it } from "vitest";

import { envelopeOf, headersOf, notificationOf, requestOf } from "../../../test/support/messages.ts";
import type { HeaderParameter } from "./header-parameters.ts";
import { checkModernPost, type ModernCheckOptions } from "./modern-post.ts";
import { errorResponse } from "../message.ts";

const yard: HeaderParameter = { header: "Mcp-Param-Yard", path: ["yard"], type: "string" };

/** A POST in parts that a test can break one by one. */
interface Draft {
  method: string;
  params: Record<string, unknown>;
  meta: Record<string, unknown>;
  headers: Record<string, string>;
  facts: ModernCheckOptions;
}

function draft(): Draft {
  return {
    method: "tools/call",
    params: { name: "weigh", arguments: { yard: "north" } },
    meta: envelopeOf(),
    headers: {
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "tools/call",
      "Mcp-Name": "weigh",
      "Mcp-Param-Yard": "north",
    },
    facts: { supported: ["2026-07-28"], headerParameters: () => [yard] },
  };
}

function judge({ method, params, meta, headers, facts }: Draft) {
  const message = requestOf(method, { ...params, _meta: meta }, 9);
  return checkModernPost({ message, header: headersOf(...Object.entries(headers)) }, facts);
}

function judgeWith(change: (post: Draft) => void) {
  const post = draft();
  change(post);
  return judge(post);
}

const version = "io.modelcontextprotocol/protocolVersion";
const capabilities = "io.modelcontextprotocol/clientCapabilities";

/** For every check, a change that breaks its rule and no other; what it is then answered with. */
const breaks: Readonly<Record<string, { change: (post: Draft) => void; status: number; code: number }>> = {
  checkEnvelope: { change: ({ meta }) => delete meta[capabilities], status: 400, code: -32602 },
  checkRevisionHeader: {
    change: ({ headers }) => (headers["MCP-Protocol-Version"] = "2025-11-25"),
    status: 400,
    code: -32020,
  },
  checkMethodHeader: {
    change: ({ headers }) => (headers["Mcp-Method"] = "TOOLS/CALL"),
    status: 400,
    code: -32020,
  },
  checkRevisionSupported: {
    change: ({ meta, headers }) => {
      meta[version] = "2099-01-01";
      if (headers["MCP-Protocol-Version"] === "2026-07-28") headers["MCP-Protocol-Version"] = "2099-01-01";
    },
    status: 400,
    code: -32022,
  },
  checkRequiredHeaders: { change: ({ headers }) => delete headers["Mcp-Name"], status: 400, code: -32020 },
  checkCapabilities: {
    change: (post) => (post.facts = { ...post.facts, requiredCapabilities: () => ({ sampling: {} }) }),
    status: 400,
    code: -32021,
  },
  checkParameters: { change: ({ headers }) => delete headers["Mcp-Param-Yard"], status: 400, code: -32020 },
  checkMethodServed: {
    change: (post) => (post.facts = { ...post.facts, isServed: () => false }),
    status: 404,
    code: -32601,
  },
};

describe("the checks of a modern POST", () => {
  it("[SC-006] accept a valid request", () => {
    expect(judge(draft())).toEqual({
      ok: true,
      revision: "2026-07-28",
      envelope: {
        revision: "2026-07-28",
        clientCapabilities: "{}",
        clientInfo: undefined,
        logLevel: undefined,
      },
    });
  });

  it("return the envelope unchanged", () => {
    const verdict = judgeWith(({ meta }) => {
      meta[capabilities] = { sampling: { tools: {} } };
      meta["io.modelcontextprotocol/clientInfo"] = { name: "kite", version: "1" };
      meta["io.modelcontextprotocol/logLevel"] = "warning";
      meta["progressToken"] = 5;
    });
    expect(verdict).toMatchObject({
      envelope: {
        clientCapabilities: '{"sampling":{"tools":{}}}',
        clientInfo: '{"name":"kite","version":"1"}',
        logLevel: "warning",
      },
    });
  });

  it.each(Object.entries(breaks))(
    "[SC-006] %s refuses with its own status and code",
    (name, { change, status, code }) => {
      expect(judgeWith(change)).toMatchObject({
        ok: false,
        check: name,
        response: { status, code, id: { json: "9" } },
      });
    },
  );

  const names = Object.keys(breaks);
  const pairs = names.flatMap((first, index) => names.slice(index + 1).map((second) => [first, second] as const));
  it.each(pairs)("[SC-091] %s answers before %s when both are broken", (first, second) => {
    const verdict = judgeWith((post) => {
      breaks[first]?.change(post);
      breaks[second]?.change(post);
    });
    const expected = breaks[first];
    expect(verdict).toMatchObject({
      ok: false,
      check: first,
      response: { status: expected?.status, code: expected?.code },
    });
  });
});

describe("the envelope", () => {
  it("[SC-006] names every key that is missing", () => {
    const verdict = judgeWith((post) => (post.meta = {}));
    expect(verdict).toMatchObject({
      response: {
        code: -32602,
        data: {
          envelope: [
            { key: version, problem: "missing" },
            { key: capabilities, problem: "missing" },
          ],
        },
      },
    });
  });

  it.each([
    [version, 5],
    [version, null],
    [capabilities, []],
    [capabilities, null],
    ["io.modelcontextprotocol/clientInfo", "kite"],
    ["io.modelcontextprotocol/logLevel", "loud"],
    ["io.modelcontextprotocol/logLevel", 3],
    ["progressToken", 1.5],
    ["progressToken", {}],
  ])("is malformed when %s is %j", (key, value) => {
    expect(judgeWith(({ meta }) => (meta[key] = value))).toMatchObject({
      check: "checkEnvelope",
      response: { status: 400, code: -32602, data: { envelope: [{ key, problem: "malformed" }] } },
    });
  });

  it("does not need clientInfo or a log level", () => {
    expect(judge(draft()).ok).toBe(true);
  });
});

describe("revisions", () => {
  it("[SC-006] rejects a missing version header with -32020, even if the version is unknown too", () => {
    expect(judgeWith(({ headers }) => delete headers["MCP-Protocol-Version"])).toMatchObject({
      response: { code: -32020, data: { header: "MCP-Protocol-Version", problem: "missing" } },
    });
    const verdict = judgeWith(({ headers, meta }) => {
      delete headers["MCP-Protocol-Version"];
      meta[version] = "2099-01-01";
    });
    expect(verdict).toMatchObject({ response: { code: -32020 } });
  });

  it.each(["2099-01-01", "2025-11-25", "draft", ""])("refuses %j with the list of what is served", (requested) => {
    const verdict = judgeWith(({ headers, meta }) => {
      headers["MCP-Protocol-Version"] = requested;
      meta[version] = requested;
    });
    expect(verdict).toMatchObject({
      check: "checkRevisionSupported",
      response: { status: 400, code: -32022, data: { supported: ["2026-07-28"], requested } },
    });
  });

  it("does not serve a legacy revision by envelope even where it is served by handshake", () => {
    const verdict = judgeWith((post) => {
      post.headers["MCP-Protocol-Version"] = "2025-11-25";
      post.meta[version] = "2025-11-25";
      post.facts = { supported: ["2026-07-28", "2025-11-25"] };
    });
    expect(verdict).toMatchObject({ response: { code: -32022 } });
  });

  it("ignores blanks around header values", () => {
    expect(judgeWith(({ headers }) => (headers["Mcp-Method"] = "  tools/call\t")).ok).toBe(true);
  });
});

describe("capabilities", () => {
  it("asks that the client declare the extension whose method it calls", () => {
    const get = (declared: unknown) =>
      judgeWith((post) => {
        post.method = "tasks/get";
        post.params = { taskId: "tk-9c1e" };
        post.headers["Mcp-Method"] = "tasks/get";
        post.headers["Mcp-Name"] = "tk-9c1e";
        post.meta[capabilities] = declared;
      });
    expect(get({ extensions: { "io.modelcontextprotocol/tasks": {} } }).ok).toBe(true);
    expect(get({})).toMatchObject({
      response: {
        code: -32021,
        data: { requiredCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } },
      },
    });
  });

  it("names only what is missing, as an object of capabilities", () => {
    const verdict = judgeWith((post) => {
      post.meta[capabilities] = { roots: {}, elicitation: {} };
      const required = { roots: {}, elicitation: { form: {}, url: {} }, sampling: { tools: {} } };
      post.facts = { ...post.facts, requiredCapabilities: () => required };
    });
    expect(verdict).toMatchObject({
      response: { data: { requiredCapabilities: { elicitation: { url: {} }, sampling: { tools: {} } } } },
    });
  });
});

describe("methods", () => {
  it.each(["ping", "initialize", "logging/setLevel", "resources/subscribe", "tasks/list", "roots/list", "nope"])(
    "[SC-026] %s is answered 404 in the modern era",
    (method) => {
      const verdict = judgeWith((post) => {
        post.method = method;
        post.params = {};
        post.headers["Mcp-Method"] = method;
      });
      expect(verdict).toMatchObject({ response: { status: 404, code: -32601, id: { json: "9" } } });
    },
  );

  it("does not compare parameters of a tool with an unknown schema", () => {
    const verdict = judgeWith((post) => {
      delete post.headers["Mcp-Param-Yard"];
      post.facts = { ...post.facts, headerParameters: () => undefined };
    });
    expect(verdict.ok).toBe(true);
  });
});

describe("modern notifications", () => {
  const judgeNotification = (params: unknown, ...lines: readonly (readonly [string, string])[]) =>
    checkModernPost(
      { message: notificationOf("notifications/cancelled", params), header: headersOf(...lines) },
      { supported: ["2026-07-28"] },
    );
  const named = ["MCP-Protocol-Version", "2026-07-28"] as const;

  it("need neither envelope nor mirrored headers", () => {
    expect(judgeNotification({ requestId: 1 }, named)).toMatchObject({ ok: true, envelope: undefined });
    expect(judgeNotification({ requestId: 1, _meta: { [version]: "2026-07-28" } })).toMatchObject({
      ok: true,
    });
  });

  it("are refused when what they do say is wrong", () => {
    const wrongMethod = judgeNotification({}, named, ["Mcp-Method", "tools/call"]);
    expect(wrongMethod).toMatchObject({ response: { status: 400, code: -32020 } });
    expect(judgeNotification({ _meta: { [version]: "2099-01-01" } }, named)).toMatchObject({
      response: { code: -32020 },
    });
    expect(judgeNotification({ _meta: { [version]: 5 } }, named)).toMatchObject({
      response: { code: -32602 },
    });
    expect(judgeNotification({}, ["MCP-Protocol-Version", "2099-01-01"])).toMatchObject({
      response: { code: -32022 },
    });
  });

  it("pass with an unknown method, because they get no response", () => {
    const message = notificationOf("notifications/nope");
    const verdict = checkModernPost({ message, header: headersOf(named) }, { supported: ["2026-07-28"] });
    expect(verdict.ok).toBe(true);
  });
});

describe("a refusal", () => {
  it("takes status and code from the error table, and only from rows that have both", () => {
    expect(errorResponse("invalid_params", "x")).toEqual({
      error: "invalid_params",
      status: 200,
      code: -32602,
      message: "x",
    });
    expect(errorResponse("invalid_params", "x", { useAlternateStatus: true }).status).toBe(400);
    expect(() => errorResponse("cancelled", "x")).toThrow(RangeError);
  });
});
