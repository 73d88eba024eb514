/** One side of the gate: the tenant it stands before, and what its connections share. */
import type { Admission } from "../model/admission.ts";
import type { Clock, Log } from "../model/ports.ts";
import type { Tenant } from "../model/tenants.ts";
import type { KeptBytes } from "./kept_body.ts";
import type { UpstreamAddress } from "./upstream_link.ts";

export interface DoorSide {
  readonly tenant: Tenant;
  readonly upstream: UpstreamAddress;
  readonly admission: Admission;
  readonly kept: KeptBytes;
  readonly clock: Clock;
  readonly log: Log;
}
