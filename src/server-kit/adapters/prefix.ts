/** A path with its query without the prefix in front; undefined where it does not stand below the prefix. */
export function withoutPrefix(path: string, prefix: string): string | undefined {
  const trimmed = prefix.replace(/\/+$/u, "");
  if (trimmed === "") return path;
  if (!path.startsWith(trimmed)) return undefined;
  const rest = path.slice(trimmed.length);
  if (rest === "") return "/";
  return rest.startsWith("/") || rest.startsWith("?") ? rest : undefined;
}
