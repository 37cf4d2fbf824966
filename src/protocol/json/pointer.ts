/** One step of a JSON Pointer with its two special characters escaped (RFC 6901 section 3). */
export function pointerStep(key: string | number): string {
  return `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The JSON Pointer of a path of member names and array indexes. */
export function pointerTo(path: readonly (string | number)[]): string {
  return path.map(pointerStep).join("");
}
