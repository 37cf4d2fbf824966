import { render } from "preact";

import { App } from "./app.tsx";
import { startSession } from "./state/session.ts";

const root = document.querySelector("#app");
if (root !== null) render(<App />, root);
void startSession();
