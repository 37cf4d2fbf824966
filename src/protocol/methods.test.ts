import { describe, expect, it } from "vitest";

import type { Direction } from "./message.ts";
import { methodFacts, methodNames, methodStatus } from "./methods.ts";
import type { MethodKind } from "./methods.ts";
import { revisionNames } from "./revisions.ts";
import type { Revision } from "./revisions.ts";

const up = "client-to-server";
const down = "server-to-client";

/** The revisions in which a method is known, as this kind and in this direction. */
function knownIn(name: string, direction: Direction, kind: MethodKind): readonly Revision[] {
  return revisionNames.filter((revision) => methodStatus(name, revision, direction, kind) === "known");
}

const all = revisionNames;
const legacy = revisionNames.slice(0, 4);
const modern = revisionNames.slice(4);
const tasksRevision = revisionNames.slice(3, 4);

describe("requests", () => {
  it.each([
    ["initialize", legacy],
    ["ping", legacy],
    ["server/discover", modern],
    ["tools/list", all],
    ["tools/call", all],
    ["prompts/list", all],
    ["prompts/get", all],
    ["resources/list", all],
    ["resources/templates/list", all],
    ["resources/read", all],
    ["resources/subscribe", legacy],
    ["resources/unsubscribe", legacy],
    ["completion/complete", all],
    ["logging/setLevel", legacy],
    ["subscriptions/listen", modern],
    ["tasks/get", [...tasksRevision, ...modern]],
    ["tasks/cancel", [...tasksRevision, ...modern]],
    ["tasks/update", modern],
    ["tasks/result", tasksRevision],
    ["tasks/list", tasksRevision],
  ])("[SC-026] [SC-094] %s from a client is known exactly where it exists", (name, expected) => {
    expect(knownIn(name, up, "request")).toEqual(expected);
  });

  it.each([
    ["ping", legacy],
    ["roots/list", legacy],
    ["sampling/createMessage", legacy],
    ["elicitation/create", revisionNames.slice(2, 4)],
    ["tasks/get", tasksRevision],
    ["tasks/cancel", tasksRevision],
    ["tasks/result", tasksRevision],
    ["tasks/list", tasksRevision],
    ["tools/call", []],
    ["server/discover", []],
  ])("[SC-026] %s from a server is known exactly where it exists", (name, expected) => {
    expect(knownIn(name, down, "request")).toEqual(expected);
  });
});

describe("notifications", () => {
  it.each([
    ["notifications/initialized", legacy, []],
    ["notifications/cancelled", all, all],
    ["notifications/progress", legacy, all],
    ["notifications/message", [], all],
    ["notifications/roots/list_changed", legacy, []],
    ["notifications/tools/list_changed", [], all],
    ["notifications/prompts/list_changed", [], all],
    ["notifications/resources/list_changed", [], all],
    ["notifications/resources/updated", [], all],
    ["notifications/elicitation/complete", [], tasksRevision],
    ["notifications/tasks/status", tasksRevision, tasksRevision],
    ["notifications/tasks", [], modern],
    ["notifications/subscriptions/acknowledged", [], modern],
  ])("[SC-026] [SC-094] %s is known exactly where it exists", (name, fromClients, fromServers) => {
    expect(knownIn(name, up, "notification")).toEqual(fromClients);
    expect(knownIn(name, down, "notification")).toEqual(fromServers);
  });
});

describe("the standing of a method", () => {
  it("[SC-094] is unknown for names that no revision has", () => {
    for (const name of ["initialized", "tools/nope", "notifications/nope", "", "constructor", "__proto__"]) {
      expect(methodFacts(name)).toBeUndefined();
      for (const kind of ["request", "notification"] as const) expect(knownIn(name, up, kind)).toEqual([]);
    }
  });

  it("tells a wrong direction and a wrong kind from an unknown name", () => {
    expect(methodStatus("tools/call", "2025-11-25", down, "request")).toBe("wrong-direction");
    expect(methodStatus("notifications/progress", "2026-07-28", up, "notification")).toBe("wrong-direction");
    expect(methodStatus("tools/call", "2025-11-25", up, "notification")).toBe("wrong-kind");
    expect(methodStatus("notifications/initialized", "2025-11-25", up, "request")).toBe("wrong-kind");
    expect(methodStatus("ping", "2026-07-28", up, "request")).toBe("unknown");
  });

  it("does not check an unknown direction", () => {
    expect(methodStatus("tools/call", "2025-11-25", "unknown", "request")).toBe("known");
    expect(methodStatus("tools/call", "2025-11-25", "internal", "request")).toBe("known");
  });

  it("[SC-026] of input requests is unknown as a message", () => {
    for (const name of ["roots/list", "sampling/createMessage", "elicitation/create"]) {
      expect(methodFacts(name)?.forms["2026-07-28"]).toBe("embedded");
      expect(methodStatus(name, "2026-07-28", down, "request")).toBe("unknown");
    }
  });
});

describe("the facts of methods", () => {
  const having = (predicate: (name: string) => boolean) => methodNames.filter(predicate);

  it("say where Mcp-Name comes from", () => {
    const sources = methodNames.flatMap((name) => {
      const source = methodFacts(name)?.nameSource;
      return source === undefined ? [] : [[name, source]];
    });
    expect(sources).toEqual([
      ["tools/call", "params.name"],
      ["prompts/get", "params.name"],
      ["resources/read", "params.uri"],
      ["tasks/get", "params.taskId"],
      ["tasks/cancel", "params.taskId"],
      ["tasks/update", "params.taskId"],
    ]);
  });

  it("say which six results carry cache hints and which three may ask for input", () => {
    expect(having((name) => methodFacts(name)?.cacheable === true)).toEqual([
      "server/discover",
      "tools/list",
      "prompts/list",
      "resources/list",
      "resources/templates/list",
      "resources/read",
    ]);
    expect(having((name) => methodFacts(name)?.inputRequired === true)).toEqual([
      "tools/call",
      "prompts/get",
      "resources/read",
    ]);
  });

  it("say how long an answer may take", () => {
    expect(methodFacts("tools/list")?.timeoutClass).toBe("quick");
    expect(methodFacts("tools/call")?.timeoutClass).toBe("tool");
    expect(methodFacts("elicitation/create")?.timeoutClass).toBe("human");
    expect(methodFacts("subscriptions/listen")?.timeoutClass).toBe("stream");
  });

  it("come once for each name", () => {
    expect(new Set(methodNames).size).toBe(methodNames.length);
  });
});
