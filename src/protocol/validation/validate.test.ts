import { describe, expect, it } from "vitest";

import { messageOf, notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import type { Diagnostic } from "../diagnostics.ts";
import type { Direction, Message } from "../message.ts";
import { type Revision, revisionNames } from "../revisions.ts";
import {
  type LevelSetting,
  validate,
  type ValidationContext,
  type ValidationLevel,
  validationLevels,
  validationSettings,
} from "./validate.ts";

const up = "client-to-server";
const down = "server-to-client";
const legacy = revisionNames.slice(0, 4);
const finding: Diagnostic = {
  code: "id.in-flight",
  severity: "error",
  message: "the id is in flight",
  path: "/id",
};

/** A schema validator that finds one thing in every message. */
const picky = {
  revision: "2025-11-25" as Revision,
  check: () => [{ code: "schema.type" as const, severity: "warn" as const, path: "/params", message: "not right" }],
};

function judge(
  message: Message,
  direction: Direction,
  settings: Partial<Record<ValidationLevel, LevelSetting>>,
  extra: Partial<ValidationContext> = {},
) {
  const all = { ...validationSettings("observe", { envelope: "off" }), ...settings };
  return validate(message, { revision: "2025-11-25", direction, settings: all, ...extra });
}

describe("settings", () => {
  it("[SC-025] of an observing route warn up to the chosen level, and about the envelope by default", () => {
    const off = { method: "off", schema: "off", semantic: "off" };
    expect(validationSettings("observe")).toEqual({ envelope: "warn", ...off });
    expect(validationSettings("observe", "schema")).toEqual({
      ...off,
      envelope: "warn",
      method: "warn",
      schema: "warn",
    });
    expect(validationSettings("observe", { envelope: "off", schema: "warn" })).toEqual({
      ...off,
      envelope: "off",
      schema: "warn",
    });
  });

  it("[SC-025] of an enforcing route enforce up to the chosen level, the method by default, and always the envelope", () => {
    const on = { envelope: "enforce", method: "enforce" };
    expect(validationSettings("enforce")).toEqual({ ...on, schema: "off", semantic: "off" });
    expect(validationSettings("enforce", "envelope")).toMatchObject({ envelope: "enforce", method: "off" });
    expect(validationSettings("enforce", "semantic")).toEqual({ ...on, schema: "enforce", semantic: "enforce" });
    expect(validationSettings("enforce", { envelope: "off", method: "warn" })).toMatchObject({
      envelope: "enforce",
      method: "warn",
    });
    expect(validationSettings("enforce", { schema: "warn" })).toMatchObject({ ...on, schema: "warn" });
  });
});

describe("each level", () => {
  const response = resultOf({ resultType: "complete" });
  const cases: Readonly<
    Record<ValidationLevel, { message: Message; extra: Partial<ValidationContext>; code: number }>
  > = {
    envelope: { message: response, extra: { revision: "2026-07-28" }, code: -32600 },
    method: { message: requestOf("tools/nope"), extra: {}, code: -32601 },
    schema: { message: requestOf("tools/call"), extra: { schema: picky }, code: -32602 },
    semantic: { message: requestOf("tools/call"), extra: { semantic: () => [finding] }, code: -32600 },
  };

  it.each(validationLevels)("[SC-025] %s can be off, warn or enforce", (level) => {
    const { message, extra, code } = cases[level];
    expect(judge(message, up, { [level]: "off" }, extra)).toEqual({ diagnostics: [], response: undefined });
    const warned = judge(message, up, { [level]: "warn" }, extra);
    expect(warned.diagnostics).toHaveLength(1);
    expect(warned.response).toBeUndefined();
    const enforced = judge(message, up, { [level]: "enforce" }, extra);
    expect(enforced.diagnostics).toMatchObject([{ severity: "error" }]);
    expect(enforced.response?.code).toBe(code);
  });

  it("continues after a warning and stops at the first response", () => {
    const extra = { schema: picky, semantic: () => [finding] };
    const report = judge(
      requestOf("tools/nope"),
      up,
      { method: "warn", schema: "enforce", semantic: "enforce" },
      extra,
    );
    expect(report.diagnostics.map(({ code }) => code)).toEqual(["method.unknown", "schema.type"]);
    expect(report.response?.code).toBe(-32602);
  });

  it("checks only the envelope of an unknown revision", () => {
    const settings = { envelope: "enforce", method: "enforce", schema: "enforce" } as const;
    const report = judge(requestOf("future/method"), up, settings, { revision: "unknown", schema: picky });
    expect(report).toEqual({ diagnostics: [], response: undefined });
  });
});

describe("the method level", () => {
  const enforce = { method: "enforce" } as const;

  it.each(legacy)("[SC-014] [SC-026] refuses an unknown method with -32601 and 200 in %s", (revision) => {
    expect(judge(requestOf("server/discover"), up, enforce, { revision }).response).toMatchObject({
      status: 200,
      code: -32601,
      id: { json: "1" },
    });
  });

  it("[SC-014] [SC-026] refuses it with 404 in the modern era", () => {
    const report = judge(requestOf("ping"), up, enforce, { revision: "2026-07-28" });
    expect(report.response).toMatchObject({ status: 404, code: -32601 });
  });

  it.each(["com.example/reindex", "acme/tools/call", "future", "x-tools/call"])(
    "[SC-026] lets the request %s of an extension pass, with a diagnostic",
    (method) => {
      expect(judge(requestOf(method), up, enforce)).toMatchObject({
        diagnostics: [{ code: "method.unknown", severity: "warn" }],
        response: undefined,
      });
    },
  );

  it.each(["tools/nope", "Tools/Call", "resources/delete", "server/x", "ping/pong", "logging/getLevel"])(
    "[SC-026] refuses the request %s, which MCP itself would have named",
    (method) => {
      expect(judge(requestOf(method), up, enforce).response?.error).toBe("method_not_found");
    },
  );

  it("[SC-026] lets what later revisions brought pass, with a diagnostic, because SDKs go by capabilities", () => {
    const report = judge(requestOf("elicitation/create"), down, enforce, { revision: "2024-11-05" });
    expect(report).toMatchObject({ diagnostics: [{ code: "method.unknown" }], response: undefined });
  });

  it("[SC-026] refuses notifications in the wrong direction, but not unknown ones", () => {
    expect(judge(notificationOf("notifications/initialized"), down, enforce).response?.error).toBe("method_not_found");
    expect(judge(notificationOf("notifications/acme/changed"), down, enforce).response).toBeUndefined();
  });

  it("says whether name, direction or kind is wrong", () => {
    const codeOf = (message: Message, direction: Direction) =>
      judge(message, direction, { method: "warn" }).diagnostics[0]?.code;
    expect(codeOf(requestOf("tools/nope"), up)).toBe("method.unknown");
    expect(codeOf(requestOf("tools/call"), down)).toBe("method.wrong-direction");
    expect(codeOf(notificationOf("tools/call"), up)).toBe("method.wrong-kind");
    expect(codeOf(requestOf("tools/call"), up)).toBeUndefined();
    expect(codeOf(resultOf({}), up)).toBeUndefined();
  });

  it("[SC-094] finds the bare initialized and other unknown names, valid envelopes as they are", () => {
    for (const message of [
      notificationOf("initialized"),
      requestOf("tools/nope"),
      notificationOf("notifications/nope"),
    ]) {
      expect(judge(message, up, { method: "warn", envelope: "enforce" })).toMatchObject({
        diagnostics: [{ code: "method.unknown", path: "/method" }],
        response: undefined,
      });
    }
    const known = judge(notificationOf("notifications/initialized"), up, { method: "enforce" });
    expect(known.diagnostics).toEqual([]);
  });
});

describe("the direction of modern messages", () => {
  const modern = { revision: "2026-07-28" } as const;
  const error = messageOf({ jsonrpc: "2.0", id: 1, error: { code: -1, message: "no" } });
  const wrong = [
    ["a result from a client", resultOf({}), up, "direction.response"],
    ["an error from a client", error, up, "direction.response"],
    ["a request from a server", requestOf("elicitation/create"), down, "direction.request"],
  ] as const;

  it.each(wrong)("[SC-095] %s is refused with 400 when enforcing", (_what, message, direction) => {
    const { response } = judge(message, direction, { envelope: "enforce" }, modern);
    expect(response).toMatchObject({ status: 400, code: -32600 });
  });

  it.each(wrong)("[SC-095] %s is a diagnostic when observing", (_what, message, direction, code) => {
    const report = judge(message, direction, { envelope: "warn" }, modern);
    expect(report).toMatchObject({ diagnostics: [{ code }], response: undefined });
  });

  it("[SC-095] is free in every legacy revision", () => {
    for (const revision of legacy) {
      for (const [, message, direction] of wrong) {
        expect(judge(message, direction, { envelope: "enforce" }, { revision })).toEqual({
          diagnostics: [],
          response: undefined,
        });
      }
    }
  });

  it("does not echo the id of a response, which is the other side's", () => {
    const { response } = judge(resultOf({}), up, { envelope: "enforce" }, modern);
    expect(response !== undefined && "id" in response).toBe(false);
  });
});

describe("whose fault a finding is", () => {
  it("[SC-014] blames the sender for requests and notifications, and lists the findings", () => {
    const report = judge(requestOf("tools/call"), up, { schema: "enforce" }, { schema: picky });
    expect(report.response).toMatchObject({
      error: "invalid_params",
      status: 200,
      code: -32602,
      data: { findings: [{ path: "/params", message: "not right" }] },
    });
  });

  it("blames the upstream for its results, never the client", () => {
    const report = judge(resultOf({}), down, { schema: "enforce" }, { schema: picky });
    expect(report.response).toMatchObject({ error: "upstream_invalid", status: 502, code: -32603 });
    const answer = judge(resultOf({}), up, { schema: "enforce" }, { schema: picky });
    expect(answer.response).toMatchObject({ error: "invalid_message", status: 400 });
  });

  it("[SC-028] rejects only what has an error", () => {
    const mild: Diagnostic = { code: "response.late", severity: "warn", message: "late" };
    expect(judge(resultOf({}), down, { semantic: "enforce" }, { semantic: () => [mild] }).response).toBeUndefined();
    const missing: Diagnostic = { code: "capability.missing", severity: "error", message: "no tools" };
    const refusalIn = (revision: Revision) =>
      judge(requestOf("tools/list"), up, { semantic: "enforce" }, { revision, semantic: () => [mild, missing] })
        .response;
    expect(refusalIn("2025-11-25")).toMatchObject({ status: 200, code: -32601 });
    expect(refusalIn("2026-07-28")).toMatchObject({ status: 404, code: -32601 });
  });
});
