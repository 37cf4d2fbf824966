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
