/** Environment variables by name. */
export type ChildEnvironment = Readonly<Record<string, string | undefined>>;

/** Marks a child and its descendants, so that they can be found. */
export const childMarkerVariable = "HEADGATE_CHILD";

const posixNames = namesIn("PATH HOME LANG LANGUAGE TZ TMPDIR USER LOGNAME SHELL TERM");

/** How to reach the network: proxies, and the certificates to trust. */
const networkNames = namesIn(
  "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA NODE_USE_ENV_PROXY " +
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE",
);
/** The settings of what downloads servers. */
const downloaderNames = /^(?:npm_config|pip|uv)_/iu;
const secretNames = /auth|token|password|secret|credential|_key$|\/\//iu;
const userInformation = /^[a-z][a-z\d+.-]*:\/\/[^/?#]*@/iu;

/** Without these, programs on Windows do not find their libraries and the user's folders. */
const windowsNames = namesIn(
  "PATH PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) COMMONPROGRAMFILES HOMEDRIVE HOMEPATH " +
    "USERNAME USERPROFILE SYSTEMDRIVE SYSTEMROOT WINDIR COMSPEC PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS TEMP TMP",
);

/**
 * The environment of a child: the inherited variables that every program needs, those that say how to reach the network, and
 * the configured ones. Others are not inherited: they may be secrets of other servers. Nor are proxies with a password.
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
    if (isNeeded(name, platform) || (isNetworkSetting(name) && !userInformation.test(value))) environment[name] = value;
  }
  for (const [name, value] of Object.entries(configured)) {
    if (value === undefined) continue;
    // Names are case-insensitive on Windows, and the first of two spellings would win.
    if (platform === "win32") deleteVariants(environment, name);
    environment[name] = value;
  }
  return environment;
}

/** Settings of the network that hold no secret. */
function isNetworkSetting(name: string): boolean {
  if (networkNames.has(name.toUpperCase())) return true;
  return downloaderNames.test(name) && !secretNames.test(name);
}

function isNeeded(name: string, platform: NodeJS.Platform): boolean {
  if (platform === "win32") return windowsNames.has(name.toUpperCase());
  return posixNames.has(name) || name.startsWith("LC_");
}

function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.split(" "));
}

function deleteVariants(environment: Record<string, string>, name: string): void {
  for (const other of Object.keys(environment)) {
    if (other.toUpperCase() === name.toUpperCase()) delete environment[other];
  }
}
