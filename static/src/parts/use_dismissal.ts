import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Closes what is open on Escape and on a press outside it, as every menu does. */
export function useDismissal(box: RefObject<HTMLElement | null>, isOpen: boolean, close: () => void): void {
  useEffect(() => {
    if (!isOpen) return;
    const onKey = (event: KeyboardEvent) => event.key === "Escape" && close();
    const onPress = (event: PointerEvent) => {
      if (event.target instanceof Node && box.current?.contains(event.target) !== true) close();
    };
    document.addEventListener("keydown", onKey);
    document.addEventListener("pointerdown", onPress);
    return () => {
      document.removeEventListener("keydown", onKey);
      document.removeEventListener("pointerdown", onPress);
    };
  }, [isOpen]);
}
