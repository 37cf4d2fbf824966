import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  acceptServerRevision,
  revisionWithoutHeader,
  isModernRevision,
  legacyOf,
  modernOf,
  negotiateRevision,
  newestCommonRevision,
  newestLegacy,
  newestModern,
  parseRevision,
  revisionNames,
  revisions,
} from "./revisions.ts";
import type { Revision } from "./revisions.ts";

const having = (predicate: (revision: Revision) => boolean) => revisionNames.filter(predicate);

describe("the text form of a revision", () => {
  it.each(revisionNames)("[SC-001] [SC-002] %s is read as itself", (text) => {
    expect(parseRevision(text)).toEqual({ ok: true, revision: text });
  });

  it("[SC-001] any other text is an error, never a default", () => {
    expect(parseRevision("2025-06-19")).toEqual({ ok: false, reason: "unknown", text: "2025-06-19" });
    for (const text of ["", " 2025-06-18", "2025-06-18 ", "2025-6-18", "latest", "DRAFT-2026-v1", "__proto__"]) {
      expect(parseRevision(text)).toEqual({ ok: false, reason: "malformed", text });
    }
    fc.assert(
      fc.property(fc.string(), (text) => {
        const reading = parseRevision(text);
        return reading.ok ? reading.revision === text : reading.text === text;
      }),
    );
  });

  it("tells modern texts from older and from shapeless ones, also for dates to come", () => {
    expect(["2026-07-28", "2026-07-29", "2099-01-01"].map(isModernRevision)).toEqual([true, true, true]);
    expect(["2026-07-27", "2025-11-25", "2024-10-07", "draft", "3000", ""].map(isModernRevision)).toEqual(
      Array.from({ length: 6 }, () => false),
    );
  });
});

describe("the table of revisions", () => {
  it("[SC-003] has batching in 2025-03-26 only and the version header from 2025-06-18 on", () => {
    expect(having((name) => revisions[name].batching)).toEqual(["2025-03-26"]);
    expect(revisionNames.map((name) => revisions[name].versionHeader)).toEqual([
      "none",
      "none",
      "after-handshake",
      "after-handshake",
      "every-request",
    ]);
  });

  it("[SC-002] covers every difference between the revisions", () => {
    const column = (fact: keyof (typeof revisions)[Revision]) => revisionNames.map((name) => revisions[name][fact]);
    expect(column("era")).toEqual(["legacy", "legacy", "legacy", "legacy", "modern"]);
    expect(column("sessions")).toEqual(["endpoint-uri", "header", "header", "header", "none"]);
    expect(column("getStream")).toEqual([true, true, true, true, false]);
    expect(column("deleteSession")).toEqual([false, true, true, true, false]);
    expect(column("resumption")).toEqual([false, true, true, true, false]);
    expect(column("primingEvent")).toEqual([false, false, false, true, false]);
    expect(column("serverRequests")).toEqual([true, true, true, true, false]);
    expect(column("elicitation")).toEqual(["none", "none", "form", "form+url", "mrtr"]);
    expect(column("tasks")).toEqual(["none", "none", "none", "core", "extension"]);
    expect(column("discover")).toEqual([false, false, false, false, true]);
    expect(column("listen")).toEqual([false, false, false, false, true]);
    expect(column("mirroredHeaders")).toEqual([false, false, false, false, true]);
    expect(column("closeCancels")).toEqual([false, false, false, false, true]);
    expect(column("errorId")).toEqual(["required", "required", "required", "optional", "optional"]);
    expect(column("cancelledRequestId")).toEqual(["required", "required", "required", "optional", "required"]);
    expect(column("idUniqueness")).toEqual(["session", "session", "session", "session", "in-flight"]);
    expect(column("resourceNotFoundCode")).toEqual([-32002, -32002, -32002, -32002, -32602]);
    expect(column("resultType")).toEqual([false, false, false, false, true]);
    expect(column("cacheHints")).toEqual([false, false, false, false, true]);
    expect(column("unknownMethodStatus")).toEqual([200, 200, 200, 200, 404]);
    expect(column("logging")).toEqual(["session", "session", "session", "session", "request"]);
    expect(column("progress")).toEqual(["both", "both", "both", "both", "server-to-client"]);
    expect(column("structuredContent")).toEqual(["none", "none", "object", "object", "any"]);
    expect(column("contentKinds").map((kinds) => (kinds as readonly string[]).length)).toEqual([3, 4, 5, 5, 5]);
    expect(column("authorization")).toEqual([
      "none",
      "authorization-server",
      "resource-server",
      "resource-server",
      "resource-server",
    ]);
  });

  it("names the newest of each era and the one assumed without a header", () => {
    expect(newestLegacy).toBe(legacyOf(revisionNames)[0]);
    expect(newestModern).toBe(modernOf(revisionNames)[0]);
    expect(revisions[revisionWithoutHeader].versionHeader).toBe("none");
    expect(having((name) => isModernRevision(name))).toEqual(having((name) => revisions[name].era === "modern"));
  });
});

describe("negotiation", () => {
  it("[SC-007] takes the client's version if it is supported", () => {
    expect(negotiateRevision("2025-03-26", revisionNames)).toEqual({
      ok: true,
      revision: "2025-03-26",
      isCounterOffer: false,
    });
  });

  it.each(["2031-01-01", "2026-07-28", "1999-09-09", "nonsense", ""])(
    "[SC-007] answers %j with the newest legacy version, never with a modern one",
    (requested) => {
      const counterOffer = { ok: true, revision: "2025-11-25", isCounterOffer: true };
      expect(negotiateRevision(requested, revisionNames)).toEqual(counterOffer);
    },
  );

  it("[SC-007] offers the newest first, in any order of configuration", () => {
    const supported: Revision[] = ["2024-11-05", "2026-07-28", "2025-06-18"];
    expect(legacyOf(supported)).toEqual(["2025-06-18", "2024-11-05"]);
    expect(negotiateRevision("2025-11-25", supported)).toMatchObject({ revision: "2025-06-18" });
  });

  it("[SC-007] fails with the supported list if there is no common version", () => {
    expect(negotiateRevision("2025-06-18", ["2026-07-28"])).toEqual({
      ok: false,
      requested: "2025-06-18",
      supported: ["2026-07-28"],
    });
    expect(acceptServerRevision("2024-10-07", revisionNames)).toEqual({
      ok: false,
      requested: "2024-10-07",
      supported: revisionNames.toReversed(),
    });
  });

  it("accepts the version that a server answered with, unless it is one that no handshake agrees on", () => {
    expect(acceptServerRevision("2025-06-18", revisionNames)).toMatchObject({
      ok: true,
      revision: "2025-06-18",
    });
    expect(acceptServerRevision("2026-07-28", revisionNames).ok).toBe(false);
  });

  it("picks the newest modern revision that both sides list", () => {
    expect(newestCommonRevision(["2099-01-01", "2026-07-28", "2025-11-25"], revisionNames)).toBe("2026-07-28");
    expect(newestCommonRevision(["2025-11-25"], revisionNames)).toBeUndefined();
  });
});
