import { randomBytes } from "node:crypto";

import { detectPersonalData } from "../policy/detectors/personal-data.ts";
import { detectSecrets } from "../policy/detectors/secrets.ts";
import { createRedactor } from "../redact/redactor.ts";

/**
 * Makes what takes secrets out of log lines: those that the configuration knows, and what looks like one, as it may come
 * in with the name of a resource or from the standard error of a server. Equal secrets stay equal within a process.
 */
export function createLogRedaction(known: (text: string) => string): (line: string) => string {
  const redactor = createRedactor({
    detectors: { secrets: detectSecrets, personalData: detectPersonalData },
    key: randomBytes(32),
    known,
  });
  return (line) => {
    const isWhole = line.endsWith("\n");
    const { text } = redactor.json(isWhole ? line.slice(0, -1) : line);
    return isWhole ? `${text}\n` : text;
  };
}
