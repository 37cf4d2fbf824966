import { thrownMessage } from "./errors.ts";

/**
 * What the model is told of a failure: the message, without a stack trace and without places in the file system of
 * this machine.
 */
export function toErrorText(thrown: unknown): string {
  const places = [memberText(thrown, "path"), memberText(thrown, "dest")].filter((place) => place !== "");
  const message = places.reduce((text, place) => text.replaceAll(place, "<path>"), thrownMessage(thrown));
  return message
    .replaceAll(/\n\s+at [^\n]*/gu, "")
    .replaceAll(/file:\/\/\S+/gu, "<path>")
    .replaceAll(/(?:[A-Za-z]:)?(?:[\\/][\w.@ -]+)+:\d+(?::\d+)?/gu, "<path>");
}

function memberText(thrown: unknown, name: string): string {
  const member: unknown =
    typeof thrown === "object" && thrown !== null ? Reflect.get(thrown, name) : undefined;
  return typeof member === "string" ? member : "";
}
