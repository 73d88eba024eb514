/** The candidate closest to what was typed, or null when none is close enough to be meant. */
export function didYouMean(typed: string, candidates: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(2, Math.floor(typed.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(typed.toLowerCase(), candidate.toLowerCase());
    const isPrefix = typed.length >= 3 && candidate.toLowerCase().startsWith(typed.toLowerCase());
    const score = isPrefix ? Math.min(distance, 1) : distance;
    if (score < bestDistance) {
      best = candidate;
      bestDistance = score;
    }
  }
  return best;
}

/** Levenshtein distance: insertions, deletions and replacements that turn one into the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replace, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
