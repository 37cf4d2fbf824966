/** Environment variables by name; what is undefined is not set. */
export type ChildEnvironment = Readonly<Record<string, string | undefined>>;

/** The variable by which a child's descendants are found again, wherever they have gone. */
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

/** Without these, programs on Windows find neither their libraries nor the user's folders. */
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
 * The environment of a child: of the inherited variables only those that every program needs, for the rest may be
 * the secrets of other servers, and over them the configured ones.
 */
export function childEnvironment(
  inherited: ChildEnvironment,
  configured: ChildEnvironment,
  platform: NodeJS.Platform,
): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(inherited)) {
    // Bash exports functions as values that begin like this, and runs what stands behind them.
    if (value === undefined || value.startsWith("()")) continue;
    if (isInherited(name, platform)) environment[name] = value;
  }
  for (const [name, value] of Object.entries(configured)) {
    if (value === undefined) continue;
    // Windows takes the names without regard to case and would keep whichever of two spellings comes first.
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
