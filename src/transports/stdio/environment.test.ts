import { describe, expect, it } from "vitest";

import { childEnvironment } from "./environment.ts";

describe("the environment of a child", () => {
  it("has what every program needs and none of the rest", () => {
    const inherited = {
      PATH: "/bin",
      HOME: "/root",
      LANG: "en",
      LC_TIME: "de",
      TZ: "UTC",
      TMPDIR: "/tmp",
      USER: "me",
      SHELL: "/bin/sh",
      TERM: "xterm",
      LD_PRELOAD: "/evil.so",
      NODE_OPTIONS: "--inspect",
      AWS_SECRET_ACCESS_KEY: "secret",
      HTTP_PROXY: "http://user:password@proxy",
      lc_time: "wrong case",
      UNSET: undefined,
    };
    expect(childEnvironment(inherited, {}, "linux")).toEqual({
      PATH: "/bin",
      HOME: "/root",
      LANG: "en",
      LC_TIME: "de",
      TZ: "UTC",
      TMPDIR: "/tmp",
      USER: "me",
      SHELL: "/bin/sh",
      TERM: "xterm",
    });
  });

  it("has what leads through proxies, to mirrors and past inspected TLS, without secrets", () => {
    const network = {
      HTTPS_PROXY: "http://proxy.corp:3128",
      https_proxy: "http://proxy.corp:3128",
      NO_PROXY: "localhost,.corp",
      NODE_EXTRA_CA_CERTS: "/etc/corp.pem",
      SSL_CERT_FILE: "/etc/corp.pem",
      REQUESTS_CA_BUNDLE: "/etc/corp.pem",
      npm_config_registry: "https://npm.corp",
      NPM_CONFIG_CAFILE: "/etc/corp.pem",
      PIP_INDEX_URL: "https://pypi.corp",
      UV_DEFAULT_INDEX: "https://pypi.corp",
    };
    const secrets = {
      HTTP_PROXY: "http://me:secret@proxy.corp:3128",
      PIP_EXTRA_INDEX_URL: "https://me:secret@pypi.corp",
      npm_config__auth: "secret",
      "npm_config_//npm.corp/:_authToken": "secret",
      UV_PUBLISH_TOKEN: "secret",
      UV_INDEX_CORP_PASSWORD: "secret",
    };
    for (const platform of ["linux", "darwin", "win32"] as const)
      expect(childEnvironment({ ...network, ...secrets }, {}, platform)).toEqual(network);
  });

  it("prefers the configured variables, and leaves out those that are not set", () => {
    const configured = { PATH: "/opt/bin", TOKEN: "own", NOTHING: undefined };
    expect(childEnvironment({ PATH: "/bin" }, configured, "linux")).toEqual({
      PATH: "/opt/bin",
      TOKEN: "own",
    });
  });

  it("leaves out functions that a shell exported", () => {
    expect(childEnvironment({ LC_X: "() { :; }; echo", TERM: "xterm" }, {}, "linux")).toEqual({
      TERM: "xterm",
    });
  });

  it("takes names on Windows without regard to case", () => {
    const inherited = { Path: "C:\\bin", SystemRoot: "C:\\Windows", TOKEN: "secret" };
    expect(childEnvironment(inherited, { PATH: "D:\\bin" }, "win32")).toEqual({
      SystemRoot: "C:\\Windows",
      PATH: "D:\\bin",
    });
  });
});
