import { comfyContract } from "./comfy_contract.ts";
import { realServer } from "./real_subject.ts";

const { missing, open } = realServer("HYPERSWAP_TEST_COMFYUI");

comfyContract({
  against: "a real ComfyUI",
  missing,
  // RtSleep is a custom node that sleeps in interruptible ticks: a server without it can't be held to this contract.
  open: async () => ({
    ...await open(),
    slowGraph: (seed) => ({
      "1": { class_type: "RtSleep", inputs: { seconds: 2, ticks: 20, seed } },
      "2": { class_type: "PreviewImage", inputs: { images: ["1", 0] } },
    }),
  }),
});
