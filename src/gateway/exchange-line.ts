import type { LogFields } from "../telemetry/log.ts";

/** What the log says of an exchange that is over. */
export interface ExchangeFields extends LogFields {
  readonly exchange: string;
  readonly trace: string | undefined;
  readonly route: string;
  readonly direction: "c2s" | "s2c";
  readonly method: string | undefined;
  readonly target: string | undefined;
  /** The request's id as it stands in the message. */
  readonly rpc: string | undefined;
  readonly session: string | undefined;
  readonly principal: string;
  readonly peer: string | undefined;
  readonly revision: string;
  readonly outcome: string;
  readonly ms: number;
}

/** Texts that come again and again: routes, methods, tools, callers and their addresses. */
const longestKept = 200;
/** Then they are cleaned anew: what counts as a secret may be another since a reload. */
const linesKept = 256;
/** Numbers no longer than this are never card numbers or the like. */
const longestHarmless = 12;

/**
 * Makes the function that writes these fields as members of a JSON line. They are written for every exchange, so they
 * are put together by hand, and texts are cleaned of secrets one by one: both cost several times as much on whole lines.
 */
export function createExchangeLineFormatter(
  clean: (text: string) => string,
): (fields: ExchangeFields) => string {
  const kept = new Map<string, string>();
  let lines = 0;

  function quoted(text: string): string {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const made = JSON.stringify(clean(text));
    if (text.length <= longestKept) kept.set(text, made);
    return made;
  }

  const member = (name: string, text: string | undefined): string =>
    text === undefined ? "" : `,"${name}":${quoted(text)}`;

  return (fields) => {
    if (lines++ % linesKept === 0) kept.clear();
    const { exchange, trace, rpc, session, revision, outcome, ms } = fields;
    // Ids of ours, of traces and small numbers hold nothing to be cleaned or escaped, and are never the same twice.
    const id = rpc === undefined ? "" : `,"rpc":${isHarmless(rpc) ? `"${rpc}"` : JSON.stringify(clean(rpc))}`;
    const traced = trace === undefined ? "" : `,"trace":"${trace}"`;
    const inSession = session === undefined ? "" : `,"session":"${session}"`;
    return `,"exchange":"${exchange}"${traced},"route":${quoted(fields.route)},"direction":"${fields.direction}"${member("method", fields.method)}${member("target", fields.target)}${id}${inSession},"principal":${quoted(fields.principal)}${member("peer", fields.peer)},"revision":"${revision}","outcome":"${outcome}","ms":${ms},"msg":"exchange"`;
  };
}

function isHarmless(rpc: string): boolean {
  return rpc.length <= longestHarmless && !rpc.startsWith('"');
}
