/** The card's part of the house: whoever asks for a setting, what carries it out, and what is known when it starts. */
import { CardPerformer } from "../act/perform_card.ts";
import { initialTuning, type TuningState } from "../decide/card_state.ts";
import type { CardControl } from "../model/card.ts";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Clock, Log, Proc, Store } from "../model/ports.ts";
import {
  DEFAULT_TUNING,
  type TuneEffect,
  type TuneEvent,
  type TuningBook,
  type TuningPolicy,
  type TuningStore,
} from "../model/tuning.ts";
import { CardService } from "./card.ts";

/** What the house is given for it; without it nothing is ever set. */
export interface TuningPorts {
  readonly control: CardControl;
  readonly book: TuningStore;
  readonly policy: TuningPolicy;
}

export interface CardKeeperParts {
  readonly tuning: TuningPorts | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly proc: Proc;
  readonly store: Store;
  readonly state: () => TuningState;
  readonly send: (event: TuneEvent) => void;
  /** Called with each event once it is kept. */
  readonly onRecorded: (item: HistoryItem) => void;
}

export class CardKeeper {
  readonly service: CardService;
  readonly #performer: CardPerformer | null;

  constructor({ tuning, ...parts }: CardKeeperParts) {
    this.service = new CardService(parts);
    const resolve: CardService["resolve"] = (requestId, reply) => this.service.resolve(requestId, reply);
    this.#performer = tuning === null ? null : new CardPerformer({ ...parts, ...tuning, resolve });
  }

  /** Starts an effect. Without a writer all that can be asked is answered. */
  perform(effect: TuneEffect): void {
    if (this.#performer !== null) return this.#performer.perform(effect);
    if (effect.kind === "answerTuning") this.service.resolve(effect.requestId, effect.reply);
  }

  /** Resolves when everything that was started has ended. */
  async settled(): Promise<void> {
    await this.#performer?.settled();
  }
}

/** Where the card's tuning begins: with the profiles that were kept, and nothing known of the card. */
export async function firstTuning(tuning: TuningPorts | null, log: Log): Promise<TuningState> {
  let book: TuningBook = { profiles: [], quarantine: [] };
  try {
    book = await tuning?.book.load() ?? book;
  } catch (error) {
    log.warn("Cannot load the profiles", { error: messageOf(error) });
  }
  return initialTuning(tuning?.policy ?? DEFAULT_TUNING, book, { hasWriter: tuning !== null });
}
