import { describe, expect, it } from "vitest";

import { vectors } from "../../test/fixtures/vectors/index.ts";
import type { PostStep, Step } from "../../test/fixtures/vectors/vector.ts";
import { headersOf } from "../../test/support/messages.ts";
import { classifyPost, classifyVerb, type ServedRevisions } from "./http/era.ts";
import { parseHeaderParameters } from "./http/header-parameters.ts";
import { memberString } from "./json/read.ts";
import { metadataOf } from "./metadata.ts";
import { checkModernPost, type ModernCheckOptions } from "./http/modern-post.ts";
import { parse } from "./parse.ts";
import { negotiateRevision, revisionNames } from "./revisions.ts";
import { loadSchemaValidator } from "./validation/schema-validator.ts";
import { validate, validationSettings } from "./validation/validate.ts";

const modernOnly: ServedRevisions = { eras: "modern", supported: ["2026-07-28"] };
const both: ServedRevisions = { eras: "both", supported: ["2026-07-28"] };

const weigh = { type: "object", properties: { yard: { type: "string", "x-mcp-header": "Yard" } } };
const reading = parseHeaderParameters(weigh);
const facts: ModernCheckOptions = {
  supported: ["2026-07-28"],
  headerParameters: (tool) => (tool === "weigh" && reading.ok ? reading.parameters : undefined),
  requiredCapabilities: (message) =>
    memberString(message, "params.name") === "summarise" ? { sampling: {} } : undefined,
};

const bytesOf = (body: unknown) => Buffer.from(JSON.stringify(body));

/** The steps of one sort, each with a name for its test. */
function stepsOf<Sort extends Step["step"]>(sort: Sort): { name: string; step: Extract<Step, { step: Sort }> }[] {
  return vectors.flatMap(({ number, title, steps }) =>
    steps.flatMap((step) => {
      const name = `${String(number).padStart(2, "0")} ${title}: ${"what" in step ? step.what : step.step}`;
      // The comparison is what the type says.
      return step.step === sort ? [{ name, step: step as Extract<Step, { step: Sort }> }] : [];
    }),
  );
}

/** Sends a POST through parser, era and modern checks. */
function judge({ revision = "2025-03-26", headers = {}, body, modernOnly: isModernOnly }: PostStep) {
  const outcome = parse(bytesOf(body), { revision, mode: "enforce" });
  const header = headersOf(...Object.entries(headers));
  const era = classifyPost(outcome, header, isModernOnly === true ? modernOnly : both);
  if (!era.ok || era.era !== "modern") return era;
  const checked = checkModernPost({ message: era.message, header }, facts);
  return checked.ok ? era : checked;
}

/** What of a verdict shows on the wire. */
function onTheWire(verdict: ReturnType<typeof judge>, expected: PostStep["expect"]): unknown {
  if (verdict.ok)
    return "reason" in expected
      ? { era: verdict.era, reason: "reason" in verdict && verdict.reason }
      : { era: verdict.era };
  const { status, code, id, data } = verdict.response;
  const isDataFixed = "refusal" in expected && expected.refusal.data !== undefined;
  return {
    refusal: { status, code, ...(id === undefined ? {} : { id: id.json }), ...(isDataFixed ? { data } : {}) },
  };
}

describe("the forty vectors", () => {
  it("are all there, in order", () => {
    expect(vectors.map(({ number }) => number)).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
  });

  it("leave only tokens wholly to tests with sockets", () => {
    const untested = vectors.filter(({ steps }) => steps.every(({ step }) => step === "later"));
    expect(untested.map(({ title }) => title)).toEqual(["no token", "a token without the scope"]);
  });

  it.each(stepsOf("post"))("$name", ({ step }) => {
    expect(onTheWire(judge(step), step.expect)).toEqual(step.expect);
  });

  it.each(stepsOf("message"))("$name", async ({ step }) => {
    const { direction, body, answers, metadata } = step;
    for (const revision of step.revisions) {
      const outcome = parse(bytesOf(body), { revision, mode: "enforce" });
      if (!outcome.ok || outcome.form !== "single") throw new Error(`not one message: ${JSON.stringify(body)}`);
      expect(metadataOf(outcome.message)).toMatchObject({ diagnostics: [], ...metadata });
      const report = validate(outcome.message, {
        revision,
        direction,
        settings: validationSettings("enforce", { method: "enforce", schema: "enforce" }),
        schema: await loadSchemaValidator(revision),
        ...(answers === undefined ? {} : { requestMethod: answers }),
      });
      expect(report).toEqual({ diagnostics: [], refusal: undefined });
    }
  });

  it.each(stepsOf("verb"))("$name $step.verb", ({ step }) => {
    expect(classifyVerb(step.verb, step.modernOnly === true ? modernOnly : both)).toEqual(step.expect);
  });

  it.each(stepsOf("handshake"))("$name about $step.requested", ({ step }) => {
    expect(negotiateRevision(step.requested, revisionNames)).toMatchObject({
      ok: true,
      revision: step.agreed,
    });
  });
});
