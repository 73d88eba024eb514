import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface ConfirmDialogProps {
  readonly title: string;
  readonly confirm: string;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
  readonly children: ComponentChildren;
}

/** A question before something with consequences. The browser's own modal keeps focus inside and closes on Escape. */
export function ConfirmDialog({ title, confirm, onConfirm, onCancel, children }: ConfirmDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={title} onClose={onCancel}>
      <h2>{title}</h2>
      <div class="dialog-text">{children}</div>
      <div class="dialog-buttons">
        <button type="button" class="button" onClick={onCancel}>Keep as it is</button>
        <button type="button" class="button button-primary" onClick={onConfirm}>{confirm}</button>
      </div>
    </dialog>
  );
}
