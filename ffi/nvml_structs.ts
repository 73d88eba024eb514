/**
 * NVML's structs as bytes: sizes, offsets, version words and decoders. Pure, little endian, 64-bit.
 * Sizes and offsets are the same in every driver's header from 450.66 to 610.43 that has the struct; the one exception
 * is the process entry (see `processStride`).
 */
import type { NvmlMemory, NvmlProcess, NvmlProcessUtilization } from "./nvml.ts";
import type { FieldValue } from "./nvml_fields.ts";

/** The first word of a versioned struct: its size, and the version in the top byte. */
function versionWord(size: number, version: number): number {
  return (size | (version << 24)) >>> 0;
}

export const SIZE = {
  memoryV1: 24,
  memoryV2: 40,
  pciInfo: 68,
  utilization: 8,
  temperatureV1: 12,
  fanSpeedInfoV1: 12,
  clockOffsetV1: 24,
  eventData: 32,
  processUtilizationSample: 32,
  fieldValue: 40,
} as const;

/** Longest string each call writes, terminator included. Too small a buffer is answered with 7. */
export const TEXT_SIZE = { name: 96, uuid: 96, driverVersion: 80, nvmlVersion: 80 } as const;

/** A wrong word is answered with 25, by GetMemoryInfo_v2 with 13. */
export const VERSION = {
  memoryV2: versionWord(SIZE.memoryV2, 2),
  temperatureV1: versionWord(SIZE.temperatureV1, 1),
  fanSpeedInfoV1: versionWord(SIZE.fanSpeedInfoV1, 1),
  clockOffsetV1: versionWord(SIZE.clockOffsetV1, 1),
} as const;

/** "Not available" where a u64 of bytes is expected. */
export const UNAVAILABLE_U64 = 0xFFFF_FFFF_FFFF_FFFFn;

function u64(view: DataView, offset: number): number {
  return Number(view.getBigUint64(offset, true));
}

/** A zeroed struct with its version word in place. */
export function versioned(size: number, version: number): DataView<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(size));
  view.setUint32(0, version, true);
  return view;
}

/** nvmlMemory_t: `used` includes what the driver reserves. */
export function decodeMemoryV1(view: DataView): NvmlMemory {
  return { totalBytes: u64(view, 0), freeBytes: u64(view, 8), usedBytes: u64(view, 16), reservedBytes: null };
}

/** nvmlMemory_v2_t: total = reserved + used + free. */
export function decodeMemoryV2(view: DataView): NvmlMemory {
  return {
    totalBytes: u64(view, 8),
    reservedBytes: u64(view, 16),
    freeBytes: u64(view, 24),
    usedBytes: u64(view, 32),
  };
}

/** nvmlPciInfo_t → "0000:01:00.0". NVML's own busId has an eight-digit domain, sysfs four, lower case. */
export function decodePciBusId(view: DataView): string {
  const hex = (offset: number, digits: number) => view.getUint32(offset, true).toString(16).padStart(digits, "0");
  return `${hex(16, 4)}:${hex(20, 2)}:${hex(24, 2)}.0`;
}

/** nvmlUtilization_t. */
export function decodeUtilization(view: DataView): { readonly gpuPct: number; readonly memoryPct: number } {
  return { gpuPct: view.getUint32(0, true), memoryPct: view.getUint32(4, true) };
}

/** nvmlTemperature_v1_t: the temperature is signed. */
export function decodeTemperature(view: DataView): number {
  return view.getInt32(8, true);
}

/** What a process list is filled with beforehand; no entry ends in this byte (high bytes are 00 or FF). */
export const UNWRITTEN = 0xA5;

/** Room for an entry of either size. */
export const PROCESS_ENTRY_MAX = 32;

/**
 * Bytes between two entries of a process list. Drivers 535.43 up to, not including, 535.98 had a third u64 in it; with
 * the wrong stride pids and bytes change places.
 */
export function processStride(driverVersion: string): 24 | 32 {
  const [major = 0, minor = 0] = driverVersion.split(".").map(Number);
  return major === 535 && minor >= 43 && minor < 98 ? 32 : 24;
}

/**
 * The stride the driver really used: how far it wrote into a buffer full of UNWRITTEN. Null when that fits neither
 * size. Looks only at the end, since the padding behind the pid stays unwritten.
 */
export function writtenStride(bytes: Uint8Array, count: number): 24 | 32 | null {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === UNWRITTEN) end--;
  if (end === count * 24) return 24;
  return end === count * 32 ? 32 : null;
}

/** nvmlProcessInfo_t, `count` of them. */
export function decodeProcesses(view: DataView, layout: { count: number; stride: 24 | 32 }): readonly NvmlProcess[] {
  const rows: NvmlProcess[] = [];
  for (let row = 0; row < layout.count; row++) {
    const at = row * layout.stride;
    const used = view.getBigUint64(at + 8, true);
    rows.push({
      pid: view.getUint32(at, true),
      usedBytes: used === UNAVAILABLE_U64 ? null : Number(used),
    });
  }
  return rows;
}

/**
 * nvmlProcessUtilizationSample_t, `count` of them, less what can't be true: over 100 %, no newer than asked for, or
 * without a pid. After a process died as a zombie the driver's ring returns about a hundred rows of rubbish.
 */
export function decodeProcessUtilization(
  view: DataView,
  asked: { count: number; sinceUs: number },
): readonly NvmlProcessUtilization[] {
  const rows: NvmlProcessUtilization[] = [];
  for (let row = 0; row < asked.count; row++) {
    const at = row * SIZE.processUtilizationSample;
    const sample = {
      pid: view.getUint32(at, true),
      timestampUs: u64(view, at + 8),
      smPct: view.getUint32(at + 16, true),
      memoryPct: view.getUint32(at + 20, true),
      encoderPct: view.getUint32(at + 24, true),
      decoderPct: view.getUint32(at + 28, true),
    };
    const highest = Math.max(sample.smPct, sample.memoryPct, sample.encoderPct, sample.decoderPct);
    if (sample.pid !== 0 && highest <= 100 && sample.timestampUs > asked.sinceUs) rows.push(sample);
  }
  return rows;
}

/** The request half of nvmlFieldValue_t, one per id. */
export function encodeFields(ids: readonly number[]): DataView<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(ids.length * SIZE.fieldValue));
  ids.forEach((id, row) => view.setUint32(row * SIZE.fieldValue, id, true));
  return view;
}

/** nvmlFieldValue_t, all of a buffer. */
export function decodeFields(view: DataView): readonly FieldValue[] {
  const fields: FieldValue[] = [];
  for (let at = 0; at + SIZE.fieldValue <= view.byteLength; at += SIZE.fieldValue) {
    const code = view.getInt32(at + 28, true);
    const value = code === 0 ? unionValue(view, { at: at + 32, type: view.getUint32(at + 24, true) }) : null;
    fields.push({ id: view.getUint32(at, true), code, value });
  }
  return fields;
}

/** nvmlValue_t by nvmlValueType_t; null for a type that isn't known here. */
function unionValue(view: DataView, where: { at: number; type: number }): number | null {
  switch (where.type) {
    case 0:
      return view.getFloat64(where.at, true);
    case 1:
      return view.getUint32(where.at, true);
    case 2:
    case 3:
      return u64(view, where.at);
    case 4:
      return Number(view.getBigInt64(where.at, true));
    case 5:
      return view.getInt32(where.at, true);
    case 6:
      return view.getUint16(where.at, true);
    default:
      return null;
  }
}

/** Text up to the terminator. */
export function decodeText(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}

/** Text with the terminator C wants. */
export function encodeText(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}
