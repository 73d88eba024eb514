import type { ComponentChildren } from "preact";

export interface TenantHeadProps {
  readonly id: string;
  readonly name: string;
  readonly tone: "ollama" | "comfy";
  readonly online: boolean;
  readonly version: string | null;
  readonly url: string;
  readonly children?: ComponentChildren;
}

/** A tenant's name, whether it answers, and what it is doing. */
export function TenantHead({ id, name, tone, online, version, url, children }: TenantHeadProps) {
  return (
    <div class="panel-head">
      <span class={`swatch seg-${tone}`} aria-hidden="true" />
      <h2 id={id}>{name}</h2>
      {version !== null && <span class="faint version">{version}</span>}
      <span class="end">
        {children}
        {!online && <span class="badge badge-bad" title={url}>Offline</span>}
      </span>
    </div>
  );
}
