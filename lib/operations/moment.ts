/** A moment as callers write it: a time, or how long ago. */
import * as z from "zod";
import type { Moment } from "../model/services.ts";

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const AGO = /^(\d+(?:\.\d+)?)([smhd])$/;

/** A parameter that takes a moment. */
export function moment(what: string) {
  return z.string().refine((text) => readMoment(text) !== null, {
    error: (issue) =>
      `Cannot read ${JSON.stringify(issue.input)} as a time: 2026-12-01T10:00:00Z, or 24h for 24 hours ago`,
  }).optional().describe(`${what}: ISO 8601 UTC, or how long ago (90s, 30m, 24h, 7d)`);
}

/** Null when it is neither. */
export function readMoment(text: string): Moment | null {
  const [, count, unit] = AGO.exec(text.trim()) ?? [];
  if (count !== undefined && unit !== undefined) return { agoMs: Number(count) * (UNIT_MS[unit] ?? 0) };
  // Bare numbers are no dates, though Date.parse would make years of them.
  const atMs = /^\d{4}-\d{2}-\d{2}/.test(text.trim()) ? Date.parse(text.trim()) : Number.NaN;
  return Number.isFinite(atMs) ? { atMs } : null;
}

/** What a parameter says; null when it was left out. */
export function momentOf(text: string | undefined): Moment | null {
  return text === undefined ? null : readMoment(text);
}
