import { randomBytes } from "node:crypto";

import { GatewayError } from "../../errors.ts";

/** Work that is started by one request and looked at by others. */
export interface Jobs<Value> {
  /** Keeps a value and returns its id; beyond the limit the oldest is dropped. */
  add(value: Value): string;
  /** Throws for an unknown or dropped id. */
  get(id: string): Value;
}

/** Makes a list of at most so many jobs. */
export function createJobs<Value>(max: number, onDropped: (value: Value) => void = () => {}): Jobs<Value> {
  const jobs = new Map<string, Value>();
  return {
    add: (value) => {
      const id = randomBytes(12).toString("base64url");
      jobs.set(id, value);
      for (const [oldest, dropped] of jobs) {
        if (jobs.size <= max) break;
        jobs.delete(oldest);
        onDropped(dropped);
      }
      return id;
    },
    get: (id) => {
      const found = jobs.get(id);
      if (found === undefined) throw new GatewayError("not_found", `unknown job ${id}; it may have expired`);
      return found;
    },
  };
}
