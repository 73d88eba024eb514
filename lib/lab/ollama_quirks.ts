/** What can go wrong with Ollama on purpose. Change it at any time. */
export interface OllamaQuirks {
  /** How long an ended runner keeps its memory; null = as the profile says. Tens of seconds make a stuck unload. */
  releaseMs: number | null;
  /** How long an MLX runner takes to leave when it is asked to (SIGINT); from 5 s on it is killed and not waited for. */
  mlxExitMs: number;
  /** `/api/ps` answers only after that long. */
  psStallMs: number;
  /** A model that doesn't fit is refused with the driver's out-of-memory text instead of being spilled. */
  refusesWhenShort: boolean;
  /** Runners die within milliseconds of their start: their load, and every load behind it, hangs for ever. */
  diesAtStart: boolean;
  /** Streams end without a last frame after that many tokens; null = they don't. */
  endsWithoutDoneAfter: number | null;
}

export function noQuirks(): OllamaQuirks {
  return {
    releaseMs: null,
    mlxExitMs: 300,
    psStallMs: 0,
    refusesWhenShort: false,
    diesAtStart: false,
    endsWithoutDoneAfter: null,
  };
}
