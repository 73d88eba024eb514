import assert from "node:assert/strict";
import { isAtLeast, throttleFields, throttleTimes } from "../../ffi/nvml_fields.ts";
import { codeName, NVML_CODES, NvmlError } from "../../ffi/nvml_errors.ts";

Deno.test("the throttle counters moved from 251 to 269 within the 580 drivers", () => {
  const first = ["570.86.15", "575.51.02", "580.65.06", "580.76.05", "580.82.07", "580.159.04", "610.43.02"]
    .map((version) => throttleFields(version).softwareThermal);
  assert.deepEqual(first, [null, 251, 251, 251, 269, 269, 269]);
  assert.deepEqual(throttleFields("580.159.04"), {
    power: 74,
    softwareThermal: 269,
    hardwareThermal: 270,
    powerBrake: 271,
  });
  assert.deepEqual(throttleFields("550.54").hardwareThermal, null);
});

Deno.test("throttle counters come in nanoseconds, and one that isn't there is null", () => {
  const values = [{ id: 74, code: 0, value: 2_500_000 }, { id: 270, code: 3, value: null }];
  assert.deepEqual(throttleTimes(throttleFields("580.159.04"), values), {
    power: 2.5,
    softwareThermal: null,
    hardwareThermal: null,
    powerBrake: null,
  });
  const old = throttleTimes(throttleFields("550.54"), values);
  assert.deepEqual([old.power, old.softwareThermal], [2.5, null]);
});

Deno.test("versions compare by number, not by letter", () => {
  assert.equal(isAtLeast("580.159.04", [580, 82, 7]), true);
  assert.equal(isAtLeast("580.82", [580, 82, 7]), false);
  assert.equal(isAtLeast("1000.1", [580]), true);
});

Deno.test("every return code has a name, and unknown ones keep their number", () => {
  assert.equal(Object.keys(NVML_CODES).length, 32);
  assert.equal(codeName(15), "GPU_IS_LOST");
  assert.equal(codeName(77), "CODE_77");
  const error = new NvmlError("nvmlDeviceGetPowerUsage", 4, { hint: "become root" });
  assert.deepEqual(
    [error.name, error.symbol, error.code, error.codeName, error.hint, error.message],
    [
      "NvmlError",
      "nvmlDeviceGetPowerUsage",
      4,
      "NO_PERMISSION",
      "become root",
      "Cannot read the GPU: nvmlDeviceGetPowerUsage returned NO_PERMISSION",
    ],
  );
});
