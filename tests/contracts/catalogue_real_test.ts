import { openFiles } from "../../lib/system/files.ts";
import { foldersContract, storeContract } from "./catalogue_contract.ts";
import { realServer } from "./real_subject.ts";

const ollama = realServer("HYPERSWAP_TEST_OLLAMA");
const comfy = realServer("HYPERSWAP_TEST_COMFYUI");

storeContract({
  against: "a real Ollama",
  missing: ollama.missing,
  open: async () => ({ ...await ollama.open(), files: openFiles() }),
});

foldersContract({
  against: "a real ComfyUI",
  missing: comfy.missing,
  open: async () => ({ ...await comfy.open(), files: openFiles() }),
});
