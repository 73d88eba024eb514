import { ollamaContract } from "./ollama_contract.ts";
import { realServer } from "./real_subject.ts";

ollamaContract({ against: "a real Ollama", ...realServer("HYPERSWAP_TEST_OLLAMA") });
