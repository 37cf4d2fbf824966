/** Environment variables by name. */
export type ChildEnvironment = Readonly<Record<string, string | undefined>>;

/** Marks a child and its descendants, so that they can be found. */
export const childMarkerVariable = "HEADGATE_CHILD";

const posixNames: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "LANG",
  "LANGUAGE",
  "TZ",
  "TMPDIR",
  "USER",
  "LOGNAME",
  "SHELL",
  "TERM",
]);

/** Without these, programs on Windows do not find their libraries and the user's folders. */
const windowsNames: ReadonlySet<string> = new Set([
  "PATH",
  "PATHEXT",
  "APPDATA",
  "LOCALAPPDATA",
  "PROGRAMDATA",
  "PROGRAMFILES",
  "PROGRAMFILES(X86)",
  "COMMONPROGRAMFILES",
  "HOMEDRIVE",
  "HOMEPATH",
  "USERNAME",
  "USERPROFILE",
  "SYSTEMDRIVE",
  "SYSTEMROOT",
  "WINDIR",
  "COMSPEC",
  "PROCESSOR_ARCHITECTURE",
  "NUMBER_OF_PROCESSORS",
  "TEMP",
  "TMP",
]);

/**
 * The environment of a child: the inherited variables that every program needs, and the configured ones. Others are not
 * inherited: they may be secrets of other servers.
 */
export function childEnvironment(
  inherited: ChildEnvironment,
  configured: ChildEnvironment,
  platform: NodeJS.Platform,
): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(inherited)) {
    // Bash exports functions like this, and runs code that follows them (Shellshock).
    if (value === undefined || value.startsWith("()")) continue;
    if (isInherited(name, platform)) environment[name] = value;
  }
  for (const [name, value] of Object.entries(configured)) {
    if (value === undefined) continue;
    // Names are case-insensitive on Windows, and the first of two spellings would win.
    if (platform === "win32") deleteVariants(environment, name);
    environment[name] = value;
  }
  return environment;
}

function isInherited(name: string, platform: NodeJS.Platform): boolean {
  if (platform === "win32") return windowsNames.has(name.toUpperCase());
  return posixNames.has(name) || name.startsWith("LC_");
}

function deleteVariants(environment: Record<string, string>, name: string): void {
  for (const other of Object.keys(environment)) {
    if (other.toUpperCase() === name.toUpperCase()) delete environment[other];
  }
}
