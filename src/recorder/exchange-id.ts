/** The parts of a label that tell exchanges apart: its process, and the counter in it. */
interface IdParts {
  readonly node: string;
  /** With the number of a request that the exchange caused, if it is one. */
  readonly counter: string;
}

const nodeLength = 8;
/** As many digits as the counter of a label can have. */
const counterDigits = 16;
/** What people see of a node; more digits are only needed where two processes share these. */
const shownDigits = 4;

/**
 * An id in a form that rises with time within a process, for the index. Exchange ids are labels
 * (`{session}-{node}-{json_rpc_id}-{counter}`), which do not; ids of other programs stay as they are.
 */
export function idSortKey(id: string): string {
  const parts = partsOf(id);
  if (parts === undefined) return id;
  const [counter = "", ...caused] = parts.counter.split(".");
  return [parts.node + counter.padStart(counterDigits, "0"), ...caused].join(".");
}

/** The short form of an id, such as `0a1b-12`, which `headgate traffic show` takes too. */
export function toShortId(id: string): string {
  const parts = partsOf(id);
  return parts === undefined ? id : `${parts.node.slice(0, shownDigits)}-${parts.counter}`;
}

/** Reads a short id; undefined for other texts. The node may have any number of digits. */
export function parseShortId(text: string): IdParts | undefined {
  const { node, counter } = /^(?<node>[0-9a-f]{1,8})-(?<counter>[1-9]\d{0,15}(?:\.\d+)?)$/u.exec(text)?.groups ?? {};
  return node === undefined || counter === undefined ? undefined : { node, counter };
}

/** Not `decodeLabel`, which checks every part: this runs with every exchange that is stored. */
function partsOf(id: string): IdParts | undefined {
  const first = id.indexOf("-");
  const last = id.lastIndexOf("-");
  const second = first + 1 + nodeLength;
  if (first < 0 || last <= second || id.charAt(second) !== "-") return undefined;
  return { node: id.slice(first + 1, second), counter: id.slice(last + 1) };
}
