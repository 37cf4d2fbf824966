import type { Frame } from "../../../../src/recorder/contract.ts";

/** A part of the time that an exchange took. */
export interface TimingPart {
  readonly name: string;
  readonly kind: "in" | "policy" | "upstream" | "out";
  readonly ms: number;
}

const isAnswer = ({ kind }: Frame): boolean => kind === "result" || kind === "error";

/** Where the time of an exchange went; the order is that of the message's way. */
export function timingOf(frames: readonly Frame[], direction: "c2s" | "s2c"): readonly TimingPart[] {
  const [near, far] = direction === "c2s" ? ["client", "upstream"] : ["upstream", "client"];
  const [first] = frames;
  const sent = frames.find(({ leg, passing, kind }) => leg === far && passing === "sent" && kind !== "decision");
  const came = frames.findLast((frame) => frame.leg === far && frame.passing === "received" && isAnswer(frame));
  const end = frames.findLast((frame) => frame.leg === near && frame.passing === "sent" && isAnswer(frame));
  if (first === undefined) return [];
  const decisionMs = (phase: "request" | "response"): number =>
    frames.reduce(
      (sum, { decision }) =>
        decision !== undefined && (decision.phase === "request") === (phase === "request")
          ? sum + decision.durationMs
          : sum,
      0,
    );
  const [before, after] = [decisionMs("request"), decisionMs("response")];
  const until = (sent ?? end ?? frames.at(-1) ?? first).mono;
  const parts: TimingPart[] = [
    { name: "gateway, request", kind: "in", ms: Math.max(0, until - first.mono - before) },
    { name: "policy", kind: "policy", ms: before + after },
  ];
  if (sent !== undefined && came !== undefined) {
    parts.push({ name: direction === "c2s" ? "server" : "client", kind: "upstream", ms: came.mono - sent.mono });
    if (end !== undefined)
      parts.push({ name: "gateway, answer", kind: "out", ms: Math.max(0, end.mono - came.mono - after) });
  }
  return parts;
}
