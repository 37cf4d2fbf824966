import { existsSync, readFileSync } from "node:fs";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { extname } from "node:path";
import { gzipSync } from "node:zlib";

import { respondText } from "../edge/router.ts";

/** Where the console is. */
export const consoleRoot = "/console";

/** The built console: beside the built gateway, or in `dist/` of a checkout. */
const folder = new URL(
  extname(import.meta.url) === ".ts" ? "../../../dist/console/" : "../../console/",
  import.meta.url,
);

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * No inline code, nothing from elsewhere, no frame around it, and no string that becomes code or HTML: output of tools
 * is shown as text.
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const securityHeaders = {
  "content-security-policy": contentSecurityPolicy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

interface ConsoleFile {
  readonly type: string;
  readonly plain: Buffer;
  readonly gzipped: Buffer;
}

/** Whether the console was built. */
export function hasConsole(): boolean {
  return existsSync(new URL("index.html", folder));
}

/** Serves the files of the console, which hold nothing secret: signing in is for the API. */
export function createConsoleFiles(): RequestListener {
  const files = new Map<string, ConsoleFile>();

  function find(name: string): ConsoleFile | undefined {
    // Names of built files; nothing that could lead out of the folder.
    if (!/^(?:assets\/)?[\w-]+(?:\.[\w-]+)*$/u.test(name)) return undefined;
    let file = files.get(name);
    if (file !== undefined) return file;
    const type = types[extname(name)];
    const url = new URL(name, folder);
    if (type === undefined || !existsSync(url)) return undefined;
    const plain = readFileSync(url);
    file = { type, plain, gzipped: gzipSync(plain) };
    // The page names the others, which change with every build.
    if (name !== "index.html") files.set(name, file);
    return file;
  }

  return (request, response) => {
    const [path = ""] = (request.url ?? "").split("?", 1);
    if (request.method !== "GET" && request.method !== "HEAD") {
      respondText(response, 405, "only GET and HEAD are served here");
      return;
    }
    if (path === consoleRoot) {
      // Relative, because a proxy may serve this under another path.
      response.writeHead(308, { location: "console/", "content-length": 0 });
      response.end();
      return;
    }
    const name = path.slice(consoleRoot.length + 1);
    const file = find(name === "" ? "index.html" : name);
    if (file === undefined)
      respondText(response, 404, hasConsole() ? "no such file" : "the console was not built: npm run build:console");
    else respondFile(request, response, file, name.startsWith("assets/"));
  };
}

function respondFile(
  request: IncomingMessage,
  response: ServerResponse,
  { type, plain, gzipped }: ConsoleFile,
  isHashed: boolean,
): void {
  const isGzip = /\bgzip\b/u.test(request.headers["accept-encoding"]?.toString() ?? "");
  const body = isGzip ? gzipped : plain;
  response.writeHead(200, {
    ...securityHeaders,
    "content-type": type,
    "content-length": body.length,
    vary: "Accept-Encoding",
    "cache-control": isHashed
      ? "public, max-age=31536000, immutable"
      : type === types[".svg"]
        ? "max-age=3600"
        : "no-cache",
    ...(isGzip ? { "content-encoding": "gzip" } : {}),
  });
  response.end(request.method === "HEAD" ? undefined : body);
}
