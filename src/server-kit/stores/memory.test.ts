import { memoryStore } from "./memory.ts";
import { describeStore } from "./store.contract.ts";

describeStore("memory", async () => memoryStore());
