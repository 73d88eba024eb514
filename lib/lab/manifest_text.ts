import type { Bytes } from "../model/units.ts";

/** What a model's further layers and its config add to its weights. */
export const OTHER_BYTES = 11_734;
const CONFIG_BYTES = 487;

/** The config blob of every simulated model; its name says nothing of its text, which nobody checks. */
export const CONFIG_BLOB = `sha256-${"c0".repeat(32)}`;

export function configText(): string {
  return JSON.stringify({ model_format: "gguf", model_family: "llama", architecture: "amd64", os: "linux" });
}

/** A manifest as Ollama writes it; weights, license and parameters add up to what `/api/tags` says. */
export function manifestText(
  { blob, blobBytes, format }: { readonly blob: string; readonly blobBytes: Bytes; readonly format: string },
): string {
  const type = (name: string) => `application/vnd.ollama.image.${name}`;
  const digest = (name: string) => name.replace("sha256-", "sha256:");
  return JSON.stringify({
    schemaVersion: 2,
    mediaType: "application/vnd.docker.distribution.manifest.v2+json",
    config: {
      mediaType: "application/vnd.docker.container.image.v1+json",
      digest: digest(CONFIG_BLOB),
      size: CONFIG_BYTES,
    },
    layers: [
      // Safetensors come as tensors, hundreds of them; one is enough here.
      { mediaType: type(format === "gguf" ? "model" : "tensor"), digest: digest(blob), size: blobBytes },
      { mediaType: type("license"), digest: `sha256:${"1c".repeat(32)}`, size: OTHER_BYTES - CONFIG_BYTES - 59 },
      { mediaType: type("params"), digest: `sha256:${"9a".repeat(32)}`, size: 59 },
    ],
  });
}
