import { isJsonContentType, readRequestBody } from "@modelcontextprotocol/server";

import { refuseRequest } from "./refusal.ts";

/** The body of a request as JSON; undefined where it is too long or none, which is left to others to refuse. */
export async function peekJsonBody(request: Request, maxBytes: number): Promise<unknown> {
  try {
    const body = await readRequestBody(request.clone(), maxBytes);
    return body.tooLarge ? undefined : JSON.parse(body.text);
  } catch {
    return undefined;
  }
}

/** The body of a request as JSON, or the answer that refuses it. */
export async function readJsonBody(
  request: Request,
  maxBytes: number,
): Promise<{ readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly response: Response }> {
  if (!isJsonContentType(request.headers.get("content-type"))) {
    return { ok: false, response: refuseRequest("unsupported_media_type") };
  }
  const body = await readRequestBody(request, maxBytes);
  if (body.tooLarge) return { ok: false, response: refuseRequest("too_large") };
  try {
    return { ok: true, value: JSON.parse(body.text) };
  } catch {
    return {
      ok: false,
      response: Response.json(
        { error: "validation_failed", message: "invalid arguments: the body is not JSON" },
        { status: 400 },
      ),
    };
  }
}
